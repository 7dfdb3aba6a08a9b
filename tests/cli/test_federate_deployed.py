# SPDX-License-Identifier: Apache-2.0
"""The commands of a federation between machines: what they refuse, without any process."""

from __future__ import annotations

import json
import os
import stat

import pytest

from epsilens.cli import main
from epsilens.document import load_document
from epsilens.federated import SiteStore

pytest.importorskip("flwr")


def run(*arguments):
    return main(["federate", *map(str, arguments)])


@pytest.fixture
def contract(file, tmp_path, capsys):
    path = tmp_path / "contract.json"
    typed = ["--label", "smokes", "--protect", "smokes", "--categories", "smokes=no|yes"]
    assert run("schema", file, *typed, "--out", path) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def invitation(contract, tmp_path):
    path = tmp_path / "invitation.json"
    given = {
        "epsilens_invitation": 1,
        "site": 2,
        "server": "127.0.0.1:9",
        "contract": json.loads(contract.read_text(encoding="utf-8")),
        "certificate": "-----BEGIN CERTIFICATE-----\n",
    }
    path.write_text(json.dumps(given), encoding="utf-8")
    return path


@pytest.fixture
def joined(monkeypatch):
    """Sites that draw and keep, and then do not go online."""
    served = []
    monkeypatch.setattr(
        "epsilens.federated.flower.site_service.serve_site",
        lambda folder, server, **options: served.append(server),
    )
    return served


def failed(capsys, *arguments):
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1
    return shown.err


def test_a_site_draws_once_and_goes_on(file, invitation, tmp_path, joined, capsys):
    folder = tmp_path / "site"
    begin = ["site", "--state", folder, "--invitation", invitation]
    assert run(*begin, "--data", file, "--epsilon", 3, "--limit", 4, "--insist-on-masks") == 0
    with SiteStore(folder).transaction() as site:
        drawn = site.state.anchor.records.codes.tobytes()
        assert (site.number, site.total_epsilon, site.state.limit) == (2, 3.0, 4.0)
        assert site.state.seed is None
        assert site.state.insists_on_masks
    assert (
        run("site", "--state", folder, "--epsilon", 3, "--limit", 5, "--server", "10.0.0.5:1") == 0
    )
    assert joined == ["127.0.0.1:9", "10.0.0.5:1"]
    said = capsys.readouterr().out.splitlines()
    assert sum("This site insists on masks" in line for line in said) == 2
    # Where TenSEAL is, its people read by what providers know it, each time the same.
    named = [line for line in said if "This site insists on masks" not in line]
    assert len(set(named)) <= 1
    assert all("As a tester of others' records this site is" in line for line in named)
    with SiteStore(folder).transaction() as site:
        assert site.state.anchor.records.codes.tobytes() == drawn
        assert (site.state.limit, len(site.ledger)) == (5.0, 1)
    other = tmp_path / "other.csv"
    other.write_text("a\n1\n")
    for typed, words in (
        (["--epsilon", 1], "has drawn at a record epsilon of 3 already"),
        (["--data", other], "has drawn from another data file"),
        (["--limit", 1], "at least the 3 that site 2 has spent"),
        (["--server", "nowhere"], "must be HOST:PORT"),
    ):
        assert words in failed(capsys, "site", "--state", folder, *typed)
    assert run("request", "--state", folder, "--epsilon", 1) == 0
    assert "Site 2 asks for epsilon = 1 by degrade" in capsys.readouterr().out
    for typed, words in (
        (["--epsilon", 4], "can only become stricter"),
        (["--epsilon", 2.5, "--mode", "redraw"], "its limit is 5"),
        (["--epsilon", 1, "--mode", "as_printed"], "--i-know-it-is-not-private"),
        (["--epsilon", 1, "--i-know-it-is-not-private"], "belongs to `--mode as_printed`"),
    ):
        assert words in failed(capsys, "request", "--state", folder, *typed)
    with SiteStore(folder).transaction() as site:
        assert site.wish.budget.per_record == 1.0


@pytest.mark.parametrize("place", ["survey.csv/sub", "/proc/x/site", "long" * 100])
def test_a_state_that_cannot_be_made_is_said_in_one_line(
    place, file, contract, invitation, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    begin = ["--invitation", invitation, "--data", file, "--epsilon", 3]
    for typed in (
        ["key"],
        ["server", "--schema", contract],
        ["server", "--declaration", contract],
        ["site", *begin],
    ):
        words = failed(capsys, *typed, "--state", place)
        assert "must be a folder that can be made and written, but " in words


def test_a_site_needs_an_invitation_data_and_a_level(file, invitation, tmp_path, joined, capsys):
    folder = tmp_path / "site"
    typed = ["site", "--state", folder]
    assert "Give `--invitation`" in failed(capsys, *typed)
    assert "`--data` and `--epsilon`" in failed(capsys, *typed, "--invitation", invitation)
    assert "must be an invitation" in failed(capsys, *typed, "--invitation", file)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("age\n1\n")
    words = failed(capsys, *typed, "--invitation", invitation, "--data", wrong, "--epsilon", 3)
    assert "must have the declared column" in words
    assert not folder.exists()
    assert "must be the folder of a site" in failed(capsys, "request", *typed[1:], "--epsilon", 1)
    assert joined == []


def test_the_coordinators_commands_say_what_is_missing(contract, tmp_path, capsys):
    from epsilens.federated import FederationSchema
    from epsilens.federated.coordinator_store import create_coordinator_store

    folder = tmp_path / "coordinator"
    assert "`--schema` must name the contract" in failed(capsys, "server", "--state", folder)
    for command in ("train", "apply", "status"):
        assert "must be the folder of a coordinator" in failed(capsys, command, "--state", folder)
    store = create_coordinator_store(folder, FederationSchema.read(contract))
    for command in (["train"], ["apply", "--preview"], ["remove", 1]):
        assert "server must run" in failed(capsys, *command, "--state", folder)
    assert "the number of a site" in failed(capsys, "remove", "x", "--state", folder)
    assert run("status", "--state", folder) == 0
    shown = capsys.readouterr().out
    assert "There is no model yet" in shown
    assert "asks for sums in clear" in shown
    store.remember_masks(masked=True)
    assert run("status", "--state", folder) == 0
    assert "asks for sums under masks" in capsys.readouterr().out
    assert "site 4 is not registered" in failed(capsys, "unregister", 4, "--state", folder)
    store.register("a key")
    assert run("unregister", 0, "--state", folder) == 0  # no server is needed
    capsys.readouterr()
    assert run("status", "--state", folder, "--json") == 0
    assert load_document(capsys.readouterr().out).versions == []
    assert store.members == ()


def test_a_contract_is_agreed_from_what_sites_declare(contract, tmp_path, capsys, monkeypatch):
    from epsilens.federated import CoordinatorStore

    served = []
    monkeypatch.setattr(
        "epsilens.federated.flower.server_service.serve_federation",
        lambda store, **options: served.append(store.schema),
    )
    other, state = tmp_path / "other.json", tmp_path / "coordinator"
    given = json.loads(contract.read_text(encoding="utf-8"))
    given["label"]["categories"].append("never asked")
    other.write_text(json.dumps(given), encoding="utf-8")
    typed = ["server", "--state", state]
    declared = ["--declaration", contract, "--declaration", other]
    assert run(*typed, *declared) == 0
    assert "2 declarations agree" in capsys.readouterr().out
    assert served == []  # a person looks at it first
    assert run(*typed, "--schema", state / "contract.json") == 0
    assert served[0].label.categories == ("no", "yes", "never asked")
    assert "there is one already" in failed(capsys, *typed, *declared)
    lacking = given["columns"].pop(0)["name"]
    other.write_text(json.dumps(given), encoding="utf-8")
    words = failed(capsys, "server", "--state", tmp_path / "new", *declared)
    assert f"other.json must declare the column {lacking!r}, as the declaration" in words
    assert CoordinatorStore(state).members == ()


def test_the_coordinators_test_records_are_its_own(file, contract, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "epsilens.federated.flower.server_service.serve_federation", lambda store, **options: None
    )
    before = os.umask(0)
    try:
        state = tmp_path / "coordinator"
        assert run("server", "--state", state, "--schema", contract, "--test", file) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((state / "test.npz").stat().st_mode) == 0o600


def test_keys_are_made_once_and_the_private_one_is_not_taken(contract, tmp_path, capsys):
    from cryptography import x509
    from cryptography.x509.verification import PolicyBuilder, Store

    from epsilens.federated import FederationSchema
    from epsilens.federated.coordinator_store import create_coordinator_store
    from epsilens.federated.flower.keys import make_certificates
    from epsilens.federated.flower.link import WHERE

    folder, site = tmp_path / "coordinator", tmp_path / "site"
    assert run("key", "--state", site) == 0
    first = (site / "site.pub").read_bytes()
    assert run("key", "--state", site) == 0
    assert (site / "site.pub").read_bytes() == first
    private = (site / "site.key").read_bytes()
    (site / "site.pub").unlink()
    assert run("key", "--state", site) == 0  # the coordinator knows the old one
    assert ((site / "site.key").read_bytes(), (site / "site.pub").read_bytes()) == (private, first)
    capsys.readouterr()
    create_coordinator_store(folder, FederationSchema.read(contract))
    make_certificates(folder, ["hospital.example.org"])
    made = (folder / "server.pem").read_bytes()
    ca = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    verifier = (
        PolicyBuilder()
        .store(Store([ca]))
        .build_server_verifier(x509.DNSName("hospital.example.org"))
    )
    verifier.verify(x509.load_pem_x509_certificate(made), [])  # as RFC 5280 wants it
    make_certificates(folder, ["hospital.example.org", "127.0.0.1"])
    assert (folder / "server.pem").read_bytes() == made
    authority = (folder / "ca.pem").read_bytes()
    make_certificates(folder, ["other.example.org"])
    assert (folder / "server.pem").read_bytes() != made
    assert (folder / "ca.pem").read_bytes() == authority
    (folder / WHERE).write_text('{"port": 9, "address": "hospital.example.org:9"}')
    typed = ["--state", folder, "--out", tmp_path / "i.json"]
    assert "must not leave its site" in failed(capsys, "register", site / "site.key", *typed)
    assert "on the curve P-384" in failed(capsys, "register", contract, *typed)
    assert "can be read" in failed(capsys, "register", tmp_path / "nothing", *typed)


def test_a_key_leaves_a_folder_that_is_there_as_it_is(tmp_path):
    for folder, mode in ((tmp_path / "shared", 0o755), (tmp_path / "own", 0o700)):
        if mode == 0o755:
            folder.mkdir()
            folder.chmod(mode)
        assert main(["federate", "key", "--state", str(folder), "--quiet"]) == 0
        assert folder.stat().st_mode & 0o777 == mode
        assert (folder / "site.key").stat().st_mode & 0o777 == 0o600
