"""The names of cases as what they say."""


def of_case(name: str) -> str:
    """``test_two_hosts_join`` is "Two hosts join"."""
    words = name.removeprefix('test_').replace('_', ' ')
    return words[:1].upper() + words[1:]


def of_group(name: str) -> str:
    """``ParallelJoins`` is "Parallel joins"."""
    words = ''.join(f' {letter.lower()}' if letter.isupper() else letter for letter in name)
    return words.strip().capitalize()
