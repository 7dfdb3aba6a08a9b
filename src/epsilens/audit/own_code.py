# SPDX-License-Identifier: Apache-2.0
"""Code of the user's own that is audited: loaded, run, and held to what was agreed.

Whatever goes wrong in it is said by its kind alone. The words of a foreign error may hold a record.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from epsilens.audit.mechanisms import BareCallable, Mechanism
from epsilens.errors import InputError, setting

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def run_own(
    expected: str,
    function: Callable[_Arguments, _Result],
    *arguments: _Arguments.args,
    **settings: _Arguments.kwargs,
) -> _Result:
    """Call code of the user's own; whatever it raises becomes one error that quotes nothing.

    Parameters
    ----------
    expected : str
        What it should have done, as the beginning of a sentence.
    function : callable
        The code.
    *arguments, **settings
        What it is given.

    Returns
    -------
    object
        What it returns.

    Raises
    ------
    InputError
        If it raises anything or ends the program. Ctrl-C, and an InputError, go through.

    Examples
    --------
    >>> run_own(f"{setting('mechanism')} must not fail", [3].index, 4)
    Traceback (most recent call last):
    ...
    epsilens.errors.InputError: `mechanism` must not fail, but it stopped with ValueError. Its words
    may hold data and are not shown: run it in Python to read them.
    """
    try:
        return function(*arguments, **settings)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        # A kind of SystemExit is how the program that runs us ends: not the user's code.
        if isinstance(error, SystemExit) and type(error) is not SystemExit:
            raise
        raise InputError(
            f"{expected}, but it stopped with {type(error).__name__}. Its words may hold data and "
            "are not shown: run it in Python to read them."
        ) from error


def load_callable(text: str) -> BareCallable | Mechanism:
    """Load what `MODULE:CALLABLE` names.

    Parameters
    ----------
    text : str
        A module that Python can import, a colon, and a name in it.

    Returns
    -------
    callable or Mechanism
        A class without arguments is made into an object.

    Raises
    ------
    InputError
        If there is no such module or name, it fails on the way, or it cannot be called.

    Examples
    --------
    >>> load_callable("math:fsum")
    <built-in function fsum>
    """
    found = load_own(
        text,
        argument="mechanism",
        expected="gaussian-sum, rr, private-ridge, dpsgd or MODULE:CALLABLE",
        hint="Write for instance mypackage.release:noisy_sum.",
    )
    if not callable(found):
        raise InputError(
            f"{setting('mechanism')} must name a callable that turns a data set into an output, "
            f"got {type(found).__name__}."
        )
    return cast("BareCallable | Mechanism", found)


def load_model(text: str, *, folder: str | None = None) -> object:
    """Load the estimator that `MODULE:NAME` names; what can be called and is no estimator makes one.

    Parameters
    ----------
    text : str
    folder : str, optional
        Folder where the module is looked for too. None: the one where the command was typed. It stays among
        those that Python looks in, because other processes load the model again.

    Raises
    ------
    InputError
        If there is no such module or name, it fails on the way, or it makes no estimator.

    Examples
    --------
    >>> load_model("sklearn.naive_bayes:GaussianNB")
    GaussianNB()
    """
    here = str(Path.cwd()) if folder is None else folder
    if here not in sys.path:
        sys.path.append(here)
    found = load_own(
        text,
        argument="model",
        expected="the name of a model, or MODULE:NAME",
        hint="Write for instance mypackage.models:make_model.",
    )
    if not hasattr(found, "fit") and callable(found):
        found = run_own(f"{setting('model')} must name an estimator, or what makes one", found)
    if not hasattr(found, "fit"):
        raise InputError(
            f"{setting('model')} must name a scikit-learn estimator, or what makes one, got "
            f"{type(found).__name__} from {text!r}."
        )
    return found


def load_own(text: str, *, argument: str, expected: str, hint: str | None = None) -> object:
    """Load what `MODULE:NAME` names; a class is made into an object.

    Parameters
    ----------
    text : str
    argument : str
        The argument that it was given for, for messages.
    expected : str
        What may be given for it.
    hint : str, optional

    Raises
    ------
    InputError
        If there is no such module or name, or it fails on the way.
    """
    module_name, colon, name = text.partition(":")
    if not (colon and module_name and name) or module_name.startswith("."):
        raise InputError(argument=argument, expected=expected, got=repr(text), hint=hint)
    found = _module(module_name, argument)
    for part in name.split("."):
        if not run_own(
            f"{setting(argument)} must name something in {module_name!r}", hasattr, found, part
        ):
            raise InputError(
                f"{setting(argument)} must name something in module {module_name!r}, but it "
                f"has no {name!r}."
            )
        found = getattr(found, part)
    if isinstance(found, type):
        return run_own(
            f"{setting(argument)} must name a function, or a class without arguments such as {name!r}",
            found,
        )
    return found


def _module(name: str, argument: str) -> object:
    expected = f"{setting(argument)} must name a module that can be imported, got {name!r}"
    # A file that was written a moment ago is not in the lists that Python keeps of folders.
    importlib.invalidate_caches()
    try:
        return run_own(expected, importlib.import_module, name)
    except InputError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name:
            raise InputError(
                f"{expected}: there is no module {missing.name!r}. Install it, or start in its "
                "folder."
            ) from missing
        raise
