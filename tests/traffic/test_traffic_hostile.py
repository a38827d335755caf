"""Whatever a file of traffic holds, it is read or refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repository import ROOT

from planner.errors import UserError
from planner.observe.traffic.reading import read_traffic

DATA = ROOT / "tests/data/traffic"
FILES = sorted(path for path in DATA.iterdir() if path.suffix != ".md")
ODD = (b"nan", b"inf", b"-1", b"1e400", b"null", b'"x"', b"{}", b"[]", b"", b"\x00", b"\xff", b"9" * 40, b"true", b",", b"\n", b'"')
LOG = b'1.2.3.4 - - [10/Oct/2026:13:55:01 +0200] "POST /v1 HTTP/1.1" 200 5\n'


@pytest.mark.sweep
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_broken_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([*(path.read_bytes() for path in FILES), LOG * 3]))
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(content)))
        end = min(len(content), begin + data.draw(st.integers(0, 12)))
        content = content[:begin] + data.draw(st.sampled_from(ODD)) + content[end:]
    path = tmp_path / "broken"
    path.write_bytes(content)
    try:
        found, trace = read_traffic([path], seconds=10.0)
    except UserError as refused:
        said = str(refused)
    else:
        said = str(path)
        assert found.requests >= 0
        assert trace is None or (trace.arrival_s[1:] >= trace.arrival_s[:-1]).all()
    assert str(path) in said


@pytest.mark.parametrize("value", [b"nan", b"inf", b"1e300", b"-5"])
def test_numbers_that_no_request_has_are_left_out(tmp_path: Path, value: bytes) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(b"timestamp,input_tokens,output_tokens\n1,5,5\n2," + value + b",5\n3,5,5\n")
    found, _ = read_traffic([path])
    assert found.requests == 2
    assert sum(found.left_out.values()) == 1


def test_milliseconds_are_told_from_seconds(tmp_path: Path) -> None:
    path = tmp_path / "ms.csv"
    path.write_text("timestamp,input_tokens,output_tokens\n1700000000000,5,5\n1700000002500,5,5\n")
    assert read_traffic([path])[0].seconds == 2.5
    path.write_text("timestamp,input_tokens,output_tokens\n0,5,5\n90000000000,5,5\n")
    with pytest.raises(UserError, match="more than a year"):
        read_traffic([path])


def test_deep_spans_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"resourceSpans": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(UserError):
        read_traffic([path])
    path.write_text(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": 5}, 7, None]}]}, 3, {"scopeSpans": None}]})
    )
    with pytest.raises(UserError, match=r"gen_ai\.usage"):
        read_traffic([path])
