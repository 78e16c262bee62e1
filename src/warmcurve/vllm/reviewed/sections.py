"""The review of vLLM's configuration, class by class, for every supported release."""

from typing import Final

from warmcurve.vllm.reviewed.kernels import KERNELS
from warmcurve.vllm.reviewed.model import MODEL
from warmcurve.vllm.reviewed.review import Section
from warmcurve.vllm.reviewed.runtime import RUNTIME

SECTIONS: Final[dict[str, Section]] = {section.name: section for section in (*RUNTIME, *MODEL, *KERNELS)}
"""By the name of the configuration's class, so that a target and its drafter share one review."""
