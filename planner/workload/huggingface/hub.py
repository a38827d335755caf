"""Config.json of a model on the Hugging Face hub, when `huggingface_hub` is installed and the hub answers.

Only that file is fetched, and no code of a repository is ever run. A copy in the library's cache is used without a request.
"""

from __future__ import annotations

import re
from pathlib import Path

ANSWER_S = 3.0
"""Seconds within which the hub has to answer."""

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class NotFetched(Exception):  # noqa: N818  # an outcome with a reason, which its caller puts into words for the user
    """Reason why there is no file."""


def is_hub_id(text: str) -> bool:
    """True if `text` has the form "organisation/name"."""
    return _ID.fullmatch(text) is not None


def config_address(name: str) -> str:
    """Address of the config.json of the hub's model `name`."""
    return f"https://huggingface.co/{name}/resolve/main/config.json"


def fetched_config(name: str) -> Path:
    """File of the hub's model `name`, from the cache or the hub; raises `NotFetched` with the reason."""
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, OfflineModeIsEnabled, RepositoryNotFoundError
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise NotFetched("huggingface_hub is not installed to fetch it (pip install 'gpu-planner[hub]')") from None
    cached = try_to_load_from_cache(name, "config.json")
    if isinstance(cached, str):
        return Path(cached)
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=ANSWER_S)  # once: the download would try five more times
        disable_progress_bars("huggingface_hub.http_get")
        return Path(hf_hub_download(name, "config.json", etag_timeout=ANSWER_S))
    except OfflineModeIsEnabled:
        reason = "it is not in the cache of huggingface_hub, which HF_HUB_OFFLINE keeps from the network"
    except GatedRepoError:
        reason = "the hub wants you to accept its licence and to log in first (hf auth login)"
    except RepositoryNotFoundError:
        reason = "the hub has no such public model"
    except EntryNotFoundError:
        reason = "it has no config.json on the hub"
    except Exception as error:  # noqa: BLE001  # errors of whichever HTTP library this version of huggingface_hub is built on
        reason = f"the Hugging Face hub did not answer ({type(error).__name__})"
    raise NotFetched(reason)
