"""Why a reply ended, in any provider's word: what is not known is never taken for the end of a whole reply."""

import pytest

from foil.engine.requests import ending_of


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ("stop STOP end_turn eos EOS_TOKEN stop_sequence COMPLETE FINISH_REASON_STOP FinishReason.STOP", "whole"),
        ("length max_tokens MAX_TOKENS model_length max_output_tokens FINISH_REASON_MAX_TOKENS incomplete", "cut"),
        ("content_filter SAFETY RECITATION refusal BLOCKLIST PROHIBITED_CONTENT sensitive content-filter", "withheld"),
        ("abort error cancelled network_error insufficient_system_resource MALFORMED_FUNCTION_CALL", "broken"),
        ("tool_calls function_call pause_turn OTHER FINISH_REASON_UNSPECIFIED null 7 stop? vibes", "unknown"),
    ],
)
def test_each_word_has_one_meaning(words, ending):
    assert {word: ending_of(word) for word in words.split()} == dict.fromkeys(words.split(), ending)


def test_no_word_is_no_ending():
    assert ending_of("") == "unknown"
