"""Sentences and headings derived from the names of test cases."""


def of_case(name: str) -> str:
    """Return the sentence of a test method: ``test_two_hosts_join`` is "Two hosts join"."""
    words = name.removeprefix('test_').replace('_', ' ')
    return words[:1].upper() + words[1:]


def of_group(name: str) -> str:
    """Return the heading of a test class: ``ParallelJoins`` is "Parallel joins"."""
    words = ''.join(f' {letter.lower()}' if letter.isupper() else letter for letter in name)
    return words.strip().capitalize()
