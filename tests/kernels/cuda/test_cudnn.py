"""cuDNN's graph interface through ctypes, against a library of the tests' own that convolves on the host."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pytest

from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    OpError,
    ResourceExhaustedError,
    UnimplementedError,
)
from flowengine.kernels.cuda import cudnn as binding
from flowengine.kernels.cuda.cudnn import Attribute, Cudnn, CudnnHandle, CudnnPart, CudnnType, Descriptor
from tests.kernels.cuda.fake_cudnn import FakeCudnn
from tests.kernels.cuda.host_compiler import needs_compiler


@needs_compiler
def test_descriptors_go_with_their_last_reference() -> None:
    library = FakeCudnn()
    gc.collect()
    before = library.alive
    made = [Descriptor(library, CudnnPart.TENSOR) for _ in range(3)]
    holder = library.card()
    assert library.alive == before + 4
    del made, holder
    assert library.alive == before


@needs_compiler
@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (3000, UnimplementedError, "TENSOR gave 3000, CUDNN_STATUS_NOT_SUPPORTED: planted"),
        (3007, UnimplementedError, "gave 3007, a status that is not known: planted"),
        (4004, ResourceExhaustedError, "gave 4004"),
        (2000, InternalError, "gave 2000, CUDNN_STATUS_BAD_PARAM: planted"),
        (1001, InternalError, "gave 1001"),
    ],
)
def test_statuses_become_errors(status: int, error: type[OpError], text: str) -> None:
    library = FakeCudnn()
    tensor = Descriptor(library, CudnnPart.TENSOR)
    library.fails("cudnnBackendFinalize", status)
    with pytest.raises(error, match=text):
        tensor.finalize()


@needs_compiler
def test_what_is_wrong_with_an_attribute_is_told_by_its_name() -> None:
    library = FakeCudnn()
    card = library.card()
    with pytest.raises(InternalError, match=r"CARD CARD_JSON gave 2000, .*: it was finalised"):
        card.set_text(Attribute.CARD_JSON, b"{}")
    assert card.text(Attribute.CARD_JSON) == b'{"deviceVer": 900}'
    heuristics = Descriptor(library, CudnnPart.HEURISTICS)
    with pytest.raises(InternalError, match="ENGINEHEUR_OPERATION_GRAPH gave 2004"):
        heuristics.set_descriptors(Attribute.ENGINEHEUR_OPERATION_GRAPH, Descriptor(library, CudnnPart.GRAPH))
    with pytest.raises(InternalError, match=r"HEURISTICS gave 2000, .*there is no card"):
        heuristics.finalize()


@needs_compiler
def test_a_handle_is_for_one_stream_and_leaves_nothing_behind() -> None:
    library = FakeCudnn()
    before = library.handles  # of others in this process
    handle = CudnnHandle(library, 77)
    assert library.told() == ["stream:77"]
    assert handle.card().text(Attribute.CARD_JSON) == b"a card"
    assert library.handles == before + 1
    handle.close()
    handle.close()
    assert library.handles == before
    with pytest.raises(FailedPreconditionError, match="has been closed"):
        handle.execute(library.card(), (), (), 0)
    library.fails("cudnnCreate", 1001)
    with pytest.raises(InternalError, match="cudnnCreate gave 1001"):
        CudnnHandle(library, 1)
    library.fails("cudnnSetStream", 2000)
    with pytest.raises(InternalError, match="cudnnSetStream gave 2000"):
        CudnnHandle(library, 1)
    assert library.handles == before


def test_without_cudnn_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    binding.cudnn.cache_clear()
    with pytest.raises(FailedPreconditionError, match="install the distribution nvidia-cudnn-cu13"):
        binding.cudnn()
    with pytest.raises(FailedPreconditionError, match="cannot be used as cuDNN"):
        Cudnn(str(tmp_path / "nothing.so"))


@needs_compiler
def test_a_cudnn_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "VERSION_MIN", 92802)
    with pytest.raises(FailedPreconditionError, match=r"is cuDNN 9\.28\.1: .* need 9\.28\.2 or newer"):
        FakeCudnn()


@needs_compiler
def test_numbers_are_as_wide_as_their_kind_says() -> None:
    """A wrong width would be read past its end, or by half."""
    library = FakeCudnn()
    tensor = Descriptor(library, CudnnPart.TENSOR)
    tensor.set_enum(Attribute.TENSOR_DATA_TYPE, CudnnType.DATA_TYPE, 9)
    tensor.set_integers(Attribute.TENSOR_DIMENSIONS, 1 << 40, 2, 3, 4)
    tensor.set_integers(Attribute.TENSOR_STRIDES, 24, 12, 4, 1)
    tensor.set_integers(Attribute.TENSOR_UNIQUE_ID, 5)
    tensor.set_flag(Attribute.TENSOR_IS_VIRTUAL, True)
    tensor.finalize()
    pack = Descriptor(library, CudnnPart.VARIANT_PACK)
    pack.set_integers(Attribute.VARIANT_PACK_UNIQUE_IDS, 3, 1)
    pack.set_addresses(Attribute.VARIANT_PACK_DATA_POINTERS, 1 << 50, (1 << 64) - 16)
    pack.set_addresses(Attribute.VARIANT_PACK_WORKSPACE, 0)
    names, addresses = (ctypes.c_int64 * 2)(), (ctypes.c_uint64 * 2)()
    workspace = ctypes.c_int64(7)
    assert library.fake.fake_pack(pack.handle, names, addresses, ctypes.byref(workspace)) == 2
    assert (list(names), list(addresses), workspace.value) == ([3, 1], [1 << 50, (1 << 64) - 16], 0)
