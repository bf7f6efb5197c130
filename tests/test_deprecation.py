"""Old names of parameters and attributes: still understood, with a warning that names the new one."""

import inspect

import pytest

from headwise.deprecation import renamed, renamed_parameters
from headwise.errors import ArgumentTypeError


@renamed_parameters(tell="progress", what="inputs")
def function(model, *, progress=None, inputs=None):
    """A docstring."""
    return model, progress, inputs


def test_a_call_with_old_names_gets_what_one_with_new_names_gets():
    with pytest.warns(DeprecationWarning, match=r"function\(tell=\.\.\.\) is deprecated .* Use progress"):
        assert function(1, tell=2) == function(1, progress=2)
    with pytest.warns(DeprecationWarning, match="is deprecated") as seen:
        assert function(1, tell=2, what=3) == (1, 2, 3)
    assert len(seen) == 2


def test_an_old_value_is_converted():
    double = renamed_parameters(half=("whole", lambda x: 2 * x))(lambda whole: whole)
    with pytest.warns(DeprecationWarning, match="Use whole"):
        assert double(half=3) == 6
    assert double(whole=3) == 3


def test_new_names_warn_of_nothing():
    assert function(1, progress=2, inputs=3) == (1, 2, 3)


def test_both_names_at_once_are_refused():
    with pytest.raises(ArgumentTypeError, match="function was given both progress and tell, its deprecated name. Pass progress alone"):
        function(1, progress=2, tell=2)


def test_the_signature_and_the_docstring_are_those_of_the_new_names():
    assert list(inspect.signature(function).parameters) == ["model", "progress", "inputs"]
    assert function.__doc__ == "A docstring."


def test_an_unknown_name_is_refused_as_python_does():
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        function(1, other=2)


def test_an_attribute_is_found_by_its_old_name():
    with pytest.warns(DeprecationWarning, match=r"headwise\.Silence is deprecated .* Use headwise\.Ablate"):
        assert renamed("Silence", {"Silence": "Ablate"}, "headwise") == "Ablate"
    with pytest.raises(AttributeError, match="module 'headwise' has no attribute 'Nothing'"):
        renamed("Nothing", {"Silence": "Ablate"}, "headwise")
