from __future__ import annotations

import threading
import time

import pytest
from threadpoolctl import threadpool_info

from epsilens.models.passes import workers


def test_results_come_in_the_order_of_the_tasks():
    def task(k):
        def run():
            time.sleep(0.001 * (5 - k % 5))
            return k

        return run

    with workers() as team:
        assert list(team.run(task(k) for k in range(40))) == list(range(40))


def test_an_error_in_a_task_reaches_the_caller():
    def fail():
        raise ArithmeticError("no")

    with pytest.raises(ArithmeticError, match="no"), workers() as team:
        list(team.run([fail, fail]))


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_the_blas_is_given_back_whoever_leaves_last():
    before = blas_threads()
    inside, may_leave = threading.Event(), threading.Event()

    def use():
        with workers():
            inside.set()
            may_leave.wait()

    for _ in range(2):
        inside.clear()
        may_leave.clear()
        other = threading.Thread(target=use)
        with workers():
            assert set(blas_threads()) == {1}
            other.start()
            inside.wait()
        assert blas_threads() == before
        may_leave.set()
        other.join()
        assert blas_threads() == before
