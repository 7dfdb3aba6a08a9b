# SPDX-License-Identifier: Apache-2.0
"""One door to the data: a folder or a download, the same table, and one line when it fails."""

from __future__ import annotations

import io
import sys
import tarfile
import types
import urllib.error
import zipfile

import numpy as np
import pandas as pd
import pytest

import datasets
from datasets import adult, census, digits, people, repository, sources
from datasets.door import DataSet, cache_folder, read_or_download
from datasets.files import TableFile
from datasets.sources import Source
from epsilens.errors import InputError, MissingExtraError

RAW = pd.DataFrame({"age": [39, 25, 25], "work": ["state", None, "own"]})
_MAKE = TableFile("people/people.csv", "", {"age": "integer", "work": "text"}, missing="?")
FILE = TableFile(_MAKE.path, _MAKE.checksum(_MAKE.canonical(RAW)), _MAKE.columns, missing="?")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("EPSILENS_DATA", str(folder))
    sources.census_persons.cache_clear()
    return folder


def data_set(*fetchers, file=FILE, versions=None):
    return DataSet(
        name="people",
        files=(file,),
        assemble=lambda table: table,
        sources=tuple(Source(f"place {n}", fetch) for n, fetch in enumerate(fetchers)),
        versions=versions,
    )


def refused():
    raise urllib.error.URLError("no route")


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_a_folder_and_a_download_give_the_same_table(tmp_path):
    folder = tmp_path / "copy"
    (folder / "people").mkdir(parents=True)
    (folder / FILE.path).write_text("work,age\nown,25\nstate,39\n?,25\n")
    local = read_or_download(data_set(refused), folder)
    fetched = read_or_download(data_set(lambda: {FILE.path: RAW}), None)
    pd.testing.assert_frame_equal(local, fetched)


def test_a_download_is_kept(cache):
    read_or_download(data_set(lambda: {FILE.path: RAW}), None)
    assert [file.name for file in (cache / "people").iterdir()] == ["people.csv"]
    assert len(read_or_download(data_set(refused), None)) == 3


def test_a_damaged_file_in_the_cache_is_fetched_again(cache):
    read_or_download(data_set(lambda: {FILE.path: RAW}), None)
    (cache / FILE.path).write_text("age,work\n39,other\n")
    assert len(read_or_download(data_set(lambda: {FILE.path: RAW}), None)) == 3
    (cache / FILE.path).write_text("")
    with pytest.raises(InputError, match="could not reach place 0"):
        read_or_download(data_set(refused), None)


def test_the_next_place_is_tried():
    table = read_or_download(data_set(refused, lambda: {FILE.path: RAW}), None)
    assert len(table) == 3


def test_no_network_is_one_line_that_says_what_to_do(cache):
    with pytest.raises(InputError) as caught:
        read_or_download(data_set(refused, refused), None)
    assert one_line(caught) == (
        "people: could not reach place 0 or place 1: put people/people.csv under DIR and pass "
        "--data DIR."
    )
    assert not cache.exists()


def test_without_a_public_loader_a_folder_is_asked_for():
    with pytest.raises(InputError, match="given by no public loader: put people/people"):
        read_or_download(data_set(), None)


def test_a_missing_loader_says_the_command_unless_another_place_was_tried():
    def missing():
        raise MissingExtraError('Run: pip install "epsilens[bench]"')

    with pytest.raises(MissingExtraError, match="epsilens"):
        read_or_download(data_set(missing), None)
    with pytest.raises(InputError, match=r"could not reach place 1 \(Run: pip install"):
        read_or_download(data_set(missing, refused), None)


def test_a_file_missing_from_a_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"needs people/people\.csv in the data folder"):
        read_or_download(data_set(lambda: {FILE.path: RAW}), tmp_path)


def test_other_content_is_refused_and_not_kept(cache):
    other = RAW.assign(age=[1, 2, 3])
    with pytest.raises(InputError, match="checksum is another") as caught:
        read_or_download(data_set(lambda: {FILE.path: other}), None)
    one_line(caught)
    assert not cache.exists()


def test_other_content_in_a_folder_is_refused(tmp_path):
    (tmp_path / "people").mkdir()
    (tmp_path / FILE.path).write_text("age,work\n1,x\n")
    with pytest.raises(InputError, match="checksum is another"):
        read_or_download(data_set(), tmp_path)


def test_another_version_is_a_warning_where_versions_are_known():
    other = RAW.assign(age=[1, 2, 3])
    with pytest.warns(UserWarning, match="it is corrected at times"):
        table = read_or_download(
            data_set(lambda: {FILE.path: other}, versions="it is corrected at times"), None
        )
    assert list(table["age"]) == [1, 2, 3]


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupted(self, content, file):
        file.write_text("age,wo")
        raise KeyboardInterrupt

    monkeypatch.setattr(TableFile, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_or_download(data_set(lambda: {FILE.path: RAW}), None)
    assert list((cache / "people").iterdir()) == []


def test_the_cache_is_under_the_home_folder_by_default(monkeypatch):
    monkeypatch.delenv("EPSILENS_DATA")
    assert cache_folder().parts[-2:] == (".cache", "epsilens")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match=r"adult, acs_pubcov.*got 'adlut'"):
        datasets.load("adlut")


def test_every_set_has_a_checksum_and_a_place_or_is_local():
    for data in datasets.DATA_SETS.values():
        assert all(len(file.sha256) == 64 for file in data.files), data.name
        assert bool(data.sources) != data.name.startswith("p2_"), data.name


# The loaders themselves, with the network played by fakes.


def give_openml(monkeypatch, frame, number):
    def fetch(*, data_id, **settings):
        assert data_id == number
        return types.SimpleNamespace(frame=frame)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def give_uci(monkeypatch, frame, number):
    def fetch(*, id):
        assert id == number
        return types.SimpleNamespace(data=types.SimpleNamespace(original=frame))

    inner = types.ModuleType("ucimlrepo.fetch")
    inner.DatasetNotFoundError = type("DatasetNotFoundError", (Exception,), {})
    outer = types.ModuleType("ucimlrepo")
    outer.fetch_ucirepo, outer.fetch = fetch, inner
    monkeypatch.setitem(sys.modules, "ucimlrepo", outer)
    monkeypatch.setitem(sys.modules, "ucimlrepo.fetch", inner)
    return inner


@pytest.mark.parametrize("name", ["ucimlrepo", "folktables"])
def test_loaders_that_are_not_installed_say_the_command(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    ask = {
        "ucimlrepo": lambda: sources.uci_repository(2),
        "folktables": lambda: sources.census_persons(("DE",)),
    }
    with pytest.raises(MissingExtraError, match=r'pip install "epsilens\[bench\]"'):
        ask[name]()


def test_a_repository_that_breaks_off_counts_as_not_reached(monkeypatch):
    inner = give_uci(monkeypatch, None, 2)

    def breaks_off(*, id):
        raise inner.DatasetNotFoundError("half a table")

    sys.modules["ucimlrepo"].fetch_ucirepo = breaks_off
    with pytest.raises(ConnectionError):
        sources.uci_repository(2)


def small_adult(monkeypatch, make_adult):
    """Let two and three people be all of Adult."""
    test, train = make_adult(2, seed=1), make_adult(3, seed=2)
    for name, part, count in (("_TEST", test, "_N_TEST"), ("_TRAIN", train, "_N_TRAIN")):
        file = getattr(adult, name)
        known = TableFile(file.path, file.checksum(file.canonical(part)), file.columns, missing="?")
        monkeypatch.setattr(adult, name, known)
        monkeypatch.setattr(adult, count, len(part))
    return test, train


def test_adult_is_parted_whichever_file_comes_first(monkeypatch, make_adult):
    test, train = small_adult(monkeypatch, make_adult)
    whole = pd.concat([test, train], ignore_index=True).rename(columns={"income": "class"})
    give_openml(monkeypatch, whole.astype({"sex": "category", "age": float}), 1590)
    by_openml = adult._from_openml()
    other = pd.concat([train, test.assign(income=test["income"] + ".")], ignore_index=True)
    give_uci(monkeypatch, other.replace("?", np.nan), 2)
    by_uci = adult._from_uci()
    for file in (adult._TRAIN, adult._TEST):
        one, two = file.canonical(by_openml[file.path]), file.canonical(by_uci[file.path])
        pd.testing.assert_frame_equal(one, two)
        assert file.checksum(one) == file.sha256


def test_mnist_is_the_first_sixty_thousand_and_the_rest(monkeypatch):
    monkeypatch.setattr(digits, "_N_TRAIN", 2)
    pixels = pd.DataFrame(np.arange(3 * 784).reshape(3, 784) % 255)
    give_openml(monkeypatch, pixels.assign(**{"class": ["7", "1", "4"]}), 554)
    arrays = digits._from_openml()["mnist/mnist.npz"]
    assert arrays["x_train"].shape == (2, 28, 28)
    assert list(arrays["y_train"]) == [7, 1]
    assert arrays["x_test"][0, 0, 1] == (2 * 784 + 1) % 255
    assert list(arrays["y_test"]) == [4]


def test_the_survey_is_asked_for_the_same_states_and_the_same_people(monkeypatch):
    asked = []

    class Survey:
        def __init__(self, **settings):
            assert settings["survey_year"] == "2018"
            assert settings["horizon"] == "1-Year"

        def get_data(self, *, states, download):
            asked.extend(states)
            print("chatter")
            people = pd.DataFrame(0, index=range(4), columns=list(census._PUBCOV.columns))
            return people.assign(
                AGEP=[64, 65, 20, 16], PINCP=[30_000, 1, 30_001, 200], WKHP=[1, 1, 0, 9], PWGTP=1
            ).assign(COW=1, OCCP=1, POBP=1, RELP=1)

    module = types.ModuleType("folktables")
    module.ACSDataSource = Survey
    monkeypatch.setitem(sys.modules, "folktables", module)
    covered = census._public_coverage()[census._PUBCOV.path]
    assert sorted(set(covered["AGEP"])) == [16, 64]
    earners = census._incomes()[census._INCOME.path]
    assert set(earners["AGEP"]) == {64}
    # Both tables from one download.
    assert len(asked) == len(set(asked)) == 14


def test_incomes_of_the_same_states_from_openml(monkeypatch):
    table = pd.DataFrame(1, index=range(3), columns=list(census._INCOME.columns))
    give_openml(monkeypatch, table.assign(ST=["10", "48", "56"]), 43141)
    assert list(census._incomes_from_openml()[census._INCOME.path]["ST"]) == ["10", "56"]


def test_glioma_in_words_or_in_codes(monkeypatch):
    coded = pd.DataFrame(0, index=range(2), columns=list(repository._GLIOMA.columns))
    coded = coded.assign(Race=[3, 0], Gender=[1, 0], IDH1=[1, 0], Age_at_diagnosis=[51.3, 38.72])
    words = coded.assign(
        Race=["american indian or alaska native", "white"],
        Gender=["Female", "Male"],
        IDH1=["MUTATED", "NOT_MUTATED"],
        Grade=["LGG", "LGG"],
    )
    made = []
    for table in (coded, words):
        give_uci(monkeypatch, table, 759)
        made.append(repository._GLIOMA.canonical(repository._glioma()[repository._GLIOMA.path]))
    pd.testing.assert_frame_equal(*made)


def test_wines_by_colour_and_air_by_date(monkeypatch):
    wine = pd.DataFrame(1, index=range(2), columns=list(repository._WINE_COLUMNS))
    wine.columns = [name.replace(" ", "_") for name in wine]
    give_uci(monkeypatch, wine.assign(color=["white", "red"], quality=[5, 6]), 186)
    bottles = repository._wine()
    assert repository._RED.canonical(bottles[repository._RED.path])["quality"].tolist() == [6]
    air = pd.DataFrame(1.26, index=[0], columns=list(repository._AIR.columns))
    give_uci(monkeypatch, air.assign(Date="3/10/2004", Time="18:00:00"), 360)
    hour = repository._AIR.canonical(repository._air()[repository._AIR.path]).iloc[0]
    assert (hour["Date"], hour["T"], hour["NOx(GT)"], hour["AH"]) == ("2004-03-10", 1.3, 1.0, 1.26)


def tar_of(files) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return held.getvalue()


def test_faces_out_of_the_archive(monkeypatch):
    binary = b"P5\n# a comment\n3 2\n255\n" + bytes([0, 10, 35, 32, 13, 9])
    figures = b"P2\n2 1\n255\n7 8\n"
    inner = tar_of(
        {
            "faces/bob/bob_up_sad_open_4.pgm": figures,
            "faces/ann/ann_left_happy_sunglasses_4.pgm": figures,
            "faces/ann/ann_left_happy_sunglasses_2.pgm": binary,
            "faces/ann/ann_left_happy_sunglasses.pgm": binary,
            "faces/ann/ann_right_happy_open_4.pgm.bad": b"",
        }
    )
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as outer:
        outer.writestr("faces.tar.gz", inner)
        outer.writestr("faces.html", "")
    monkeypatch.setattr(people, "download", lambda address: held.getvalue())
    contents = people._faces()
    small, half = contents[people._SMALL.path], contents[people._HALF.path]
    assert small["identity"].tolist() == ["ann", "bob"]
    assert small["eyes"].tolist() == ["sunglasses", "open"]
    assert small["images"].tolist() == [[[7, 8]], [[7, 8]]]
    assert half["images"].tolist() == [[[0, 10, 35], [32, 13, 9]]]


def test_activities_out_of_the_archive(monkeypatch):
    names = list(people._WISDM.columns)
    head = "".join(f'@attribute "{name}" numeric\n' for name in names[:-1])
    head += "@attribute class { Walking, Jogging }\n"
    row = ["1", "33", *["0.5"] * 33, "?", *["0.5"] * 9, "Jogging"]
    text = f"@relation wisdm\n{head}@data\n{','.join(row)}\n"
    held = tar_of({"w/readme.txt": b"", "w/WISDM_ar_v1.1_transformed.arff": text.encode()})
    monkeypatch.setattr(people, "download", lambda address: held)
    table = people._WISDM.canonical(people._activities()[people._WISDM.path])
    assert table.shape == (1, len(names))
    assert table["class"][0] == "Jogging"
    assert int(table.isna().to_numpy().sum()) == 1


def test_only_secure_addresses_are_fetched():
    with pytest.raises(ValueError, match="https"):
        sources.download("http://example.org/a.zip")
