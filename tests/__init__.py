import pytest

# A failed assert in a helper shows its values too.
pytest.register_assert_rewrite("tests.contract_runtime", "tests.contract_store", "tests.helpers", "tests.http")
