"""Sentences and headings derived from the names of test cases."""
import re


def of_case(name: str) -> str:
    """Return the sentence of a test method.

    ``test_mode_is_rejected_before_3_54`` is "Mode is rejected before 3.54".
    """
    words = re.sub(r'(?<=\d)_(?=\d)', '.', name.removeprefix('test_')).replace('_', ' ')
    return words[:1].upper() + words[1:]


def of_group(name: str) -> str:
    """Return the heading of a test class: ``AccessModes`` is "Access modes"."""
    words = ''.join(f' {letter.lower()}' if letter.isupper() else letter for letter in name)
    return words.strip().capitalize()
