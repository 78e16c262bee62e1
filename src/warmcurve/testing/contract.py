"""The tests that every store must pass. Subclass them, give them a store, and let pytest collect them.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self) -> Store: return MyStore(...)

The fixture gives a new, empty, writable store for each test.
"""

from warmcurve.storage.store import Store

_A, _B = "a" * 64, "0123456789abcdef" * 4


class StoreContract:
    def test_a_new_store_is_empty(self, store: Store) -> None:
        """A new store holds nothing, and reading it is no error."""
        assert store.get(_A) is None
        assert store.list() == ()

    def test_get_gives_what_was_put(self, store: Store) -> None:
        """Bytes come back as they were put, whatever they are."""
        data = bytes(range(256)) + b"\n\r\n\x00"
        store.put(_A, data)
        assert store.get(_A) == data
        assert store.get(_B) is None

    def test_an_empty_value_is_a_value(self, store: Store) -> None:
        """Nothing stored and an empty value stored are told apart."""
        store.put(_A, b"")
        assert store.get(_A) == b""
        assert store.list() == (_A,)

    def test_put_replaces(self, store: Store) -> None:
        """The last put wins, in full."""
        store.put(_A, b"longer than what follows")
        store.put(_A, b"short")
        assert store.get(_A) == b"short"
        assert store.list() == (_A,)

    def test_list_is_in_order(self, store: Store) -> None:
        """All digests, sorted, whatever the order of puts."""
        store.put(_A, b"1")
        store.put(_B, b"2")
        assert store.list() == (_B, _A)

    def test_delete_says_whether_there_was_something(self, store: Store) -> None:
        """Deleting twice is no error, and says so."""
        store.put(_A, b"1")
        assert store.delete(_A) is True
        assert store.delete(_A) is False
        assert store.get(_A) is None
        assert store.list() == ()

    def test_set_aside_takes_an_entry_out_of_the_way(self, store: Store) -> None:
        """What is set aside is neither read nor listed any more, and its place can be taken again."""
        store.put(_A, b"damaged")
        assert store.set_aside(_A) is True
        assert store.get(_A) is None
        assert store.list() == ()
        assert store.set_aside(_A) is False
        store.put(_A, b"good")
        assert store.get(_A) == b"good"

    def test_only_digests_are_names(self, store: Store) -> None:
        """A name that is no digest, such as a path that leads out of the store, is a ValueError everywhere."""
        for name in ("", "a" * 63, "A" * 64, "../" + "a" * 61, "a" * 64 + "\n"):
            for operation in (store.get, store.delete, store.set_aside, store.describe, lambda n: store.put(n, b"")):
                try:
                    operation(name)
                except ValueError:
                    continue
                raise AssertionError(f"{name!r} was taken for a digest")

    def test_describe_names_the_entry(self, store: Store) -> None:
        """Different entries are described by different texts, whether or not they are there."""
        assert _A in store.describe(_A)
        assert store.describe(_A) != store.describe(_B)

    def test_whereabouts_are_told(self, store: Store) -> None:
        """Whether or not there are entries, and however little time there is."""
        for _ in range(2):
            assert store.whereabouts(lambda: False).startswith("looked in ")
            assert store.whereabouts(lambda: True).startswith("looked in ")
            store.put(_A, b"1")
