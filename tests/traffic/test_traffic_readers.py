"""Files that others recorded, each read as what it is; wrong ones named line by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from repository import ROOT

from planner.errors import UserError
from planner.observe.traffic.reading import read_trace, read_traffic

DATA = ROOT / "tests/data/traffic"


def test_azure() -> None:
    trace = read_trace([DATA / "azure_code_2023.csv"])
    assert trace.source == "Azure LLM inference trace"
    assert trace.requests == 40
    assert trace.begins is not None
    assert trace.begins.isoformat(timespec="milliseconds") == "2023-11-16T18:17:03.979+00:00"
    assert trace.arrival_s[-1] == pytest.approx(34.28444, abs=1e-4)
    assert (trace.input_tokens[0], trace.output_tokens[0]) == (4808, 10)


def test_burstgpt() -> None:
    trace = read_trace([DATA / "burstgpt_1.csv"])
    assert trace.source == "BurstGPT trace"
    assert trace.arrival_s.tolist() == [0, 40, 113]
    assert trace.output_tokens.tolist() == [18, 230, 276]


def test_failures_and_sessions_of_burstgpt(tmp_path: Path) -> None:
    path = tmp_path / "burstgpt_3.csv"
    path.write_text(
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "0,a,1,ChatGPT,100,20,120,Conversation log\n"
        "9,b,1,ChatGPT,50,0,50,Conversation log\n"
        "20,a,1,ChatGPT,150,30,180,Conversation log\n"
        "30,a,1,ChatGPT,60,30,90,Conversation log\n"
    )
    trace = read_trace([path])
    assert trace.requests == 3
    assert trace.left_out == {"failed: without an output token": 1}
    assert trace.prefix_tokens.tolist() == [0, 120, 0]


def test_mooncake_counts_blocks_seen_before() -> None:
    trace = read_trace([DATA / "mooncake_conversation.jsonl"])
    assert trace.source == "Mooncake trace"
    assert trace.arrival_s.max() == 9.0
    assert trace.prefix_tokens[:3].tolist() == [0, 512, 512]
    assert trace.timed


def test_servegen_has_no_times_and_blocks_of_sixteen() -> None:
    trace = read_trace([DATA / "servegen_offline_c.jsonl"])
    assert not trace.timed
    assert trace.prefix_tokens.tolist() == [0, 368]  # as its README works out
    full = read_trace([DATA / "servegen_offline_d.jsonl"])
    assert full.has_lengths
    assert full.output_tokens[0] == 2370


def test_spans_of_model_calls_alone_count() -> None:
    trace = read_trace([DATA / "otel_spans.json"])
    assert trace.input_tokens.tolist() == [400, 600]
    assert trace.prefix_tokens.tolist() == [0, 384]
    assert trace.left_out == {"not a call of a model": 1}


def test_spans_one_document_a_line(tmp_path: Path) -> None:
    document = (DATA / "otel_spans.json").read_text().replace("\n", "")
    path = tmp_path / "spans.jsonl"
    path.write_text(f"{document}\n{document.replace('171000', '171001')}\n")
    assert read_trace([path]).requests == 4


def test_access_logs(tmp_path: Path) -> None:
    line = '10.0.0.{0} - - [10/Oct/2026:13:55:{0:02d} +0200] "{1} /v1/chat/completions HTTP/1.1" {2} 512 "-" "curl/8"\n'
    path = tmp_path / "access.log"
    path.write_text(
        line.format(1, "POST", 200) + line.format(2, "GET", 200) + line.format(3, "POST", 502) + line.format(6, "POST", 200)
    )
    trace = read_trace([path])
    assert trace.arrival_s.tolist() == [0, 5]
    assert trace.begins is not None
    assert trace.begins.hour == 11
    assert trace.left_out == {"not a POST request": 1, "answered with an error": 1}
    assert np.isnan(trace.input_tokens).all()
    assert trace.with_lengths(100, 10).has_lengths


def test_json_logs_with_usage(tmp_path: Path) -> None:
    path = tmp_path / "gateway.jsonl"
    path.write_text(
        '{"time": "2026-10-10T10:00:00Z", "status": 200, "usage": {"prompt_tokens": 120, "completion_tokens": 12}}\n'
        '{"time": "2026-10-10T10:00:02.5Z", "status": 200, "response": {"usage": {"prompt_tokens": 200, "completion_tokens": 7,'
        ' "prompt_tokens_details": {"cached_tokens": 64}}}}\n'
    )
    trace = read_trace([path])
    assert trace.arrival_s.tolist() == [0, 2.5]
    assert trace.input_tokens.tolist() == [120, 200]
    assert trace.output_tokens.tolist() == [12, 7]


def test_pages_of_metrics() -> None:
    vllm, _ = read_traffic([DATA / "vllm_metrics.txt"], seconds=38.0)
    assert (vllm.requests, vllm.rate_per_s, vllm.waiting) == (38, 1.0, 0.0)
    assert vllm.input_tokens is not None
    assert vllm.input_tokens.mean == round(12952 / 38, 1)
    assert 100 < (vllm.input_tokens.p50 or 0) <= 200
    assert 500 < (vllm.input_tokens.p95 or 0) <= 1000
    sglang, _ = read_traffic([DATA / "sglang_metrics.txt"])
    assert sglang.output_tokens is not None
    assert sglang.output_tokens.mean == round(7557572 / 11008, 1)
    assert sglang.rate_per_s is None
    assert "--seconds" in sglang.notes[0]


def test_metrics_that_are_not_read_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_text((DATA / "vllm_metrics.txt").read_text() + "vllm:cpu_prefix_cache_hit_rate -1.0\nvllm:lora_requests_info NaN\n")
    assert read_traffic([path])[0].requests == 38


def test_two_pages_tell_what_came_between(tmp_path: Path) -> None:
    def page(name: str, count: int, hits: int) -> Path:
        path = tmp_path / name
        path.write_text(
            f"tgi_request_input_length_sum {count * 120}\ntgi_request_input_length_count {count}\n"
            f"tgi_request_generated_tokens_sum {count * 80}\ntgi_request_generated_tokens_count {count}\n"
            f'tgi_request_success{{method="generate"}} {count}\ntgi_queue_size {hits}\n'
        )
        return path

    found, trace = read_traffic([page("first", 100, 0), page("second", 400, 3)], seconds=60)
    assert trace is None
    assert found.rate_per_s == 5.0
    assert found.input_tokens is not None
    assert found.input_tokens.mean == 120
    assert found.waiting == 3
    with pytest.raises(UserError, match="restarted"):
        read_traffic([tmp_path / "second", tmp_path / "first"], seconds=60)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.csv", "", "is empty"),
        ("other.csv", "timestamp,prompt\n1,2\n", "input tokens"),
        ("bad.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,4,1\n2023-11-16 18:17:03,x,1\n", "line 2"),
        ("cut.jsonl", '{"timestamp": 0, "input_length": 5, "output_length": 2}\n{"timestamp": 1, "inp\n{"x\n{"y\n', "line 2"),
        ("other.json", "[1, 2]", "is not in a supported format"),
        ("spans.json", '{"resourceSpans": []}', "gen_ai.usage.input_tokens"),
        ("words.txt", "hello there\n", "is not in a supported format"),
        ("image.bin", "\x89PNG\x00\x01", "is not in a supported format"),
        ("page.txt", "vllm:num_requests_running 1\n", "request_success_total"),
    ],
)
def test_wrong_files_say_what_is_wrong(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError) as wrong:
        read_traffic([path])
    assert said in str(wrong.value)
    assert str(path) in str(wrong.value)


def test_a_line_that_was_cut_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv"
    whole = (DATA / "azure_code_2023.csv").read_text()
    path.write_text(whole + "2023-11-16 18:17:3")
    trace = read_trace([path])
    assert trace.requests == 40
    ((why, count),) = trace.left_out.items()
    assert count == 1
    assert "line 42" in why


def test_several_files_are_one_trace() -> None:
    one, both = read_trace([DATA / "burstgpt_1.csv"]), read_trace([DATA / "burstgpt_1.csv", DATA / "burstgpt_1.csv"])
    assert both.requests == 2 * one.requests
    assert both.seconds == 2 * one.seconds
    with pytest.raises(UserError, match="together"):
        read_traffic([DATA / "burstgpt_1.csv", DATA / "vllm_metrics.txt"])
