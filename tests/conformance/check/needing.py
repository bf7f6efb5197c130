"""A module whose package is not there."""

import a_package_that_is_not  # noqa: F401 # pyright: ignore
