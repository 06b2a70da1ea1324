"""A model of the Hugging Face hub by its name: what there is to download, and a folder that holds it, every byte checked.

NAME is owner/model. After it may stand @REVISION, and in a repository of GGUF files :TYPE (as Q4_K_M) or :FILE. The package
huggingface_hub downloads, resumes and shows progress; HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE hold.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from ..errors import IO, MEMORY, USAGE, ConvertError
from .files.gguf import PART
from .paths import NAME, TOKENIZER_PARTS
from .sources.huggingface import LICENCES, read_object
from .words import size

try:
    import huggingface_hub as hf
    from huggingface_hub import constants, errors
except ValueError as e:  # of a variable that should be a number
    print(f"a variable that begins with HF_ is not understood: {e}", file=sys.stderr)
    sys.exit(USAGE)

TRIES = 5  # of a short transfer that breaks
CONFIG, INDEX = "config.json", "model.safetensors.index.json"
TEXTS = (
    CONFIG, "generation_config.json", "tokenizer.json", "tokenizer.model", "tiktoken.model", *TOKENIZER_PARTS,
    "chat_template.jinja", *LICENCES, "README.md",
)  # fmt: skip
# Of several GGUF files the one that loses least, but none of 16 bits, which takes twice the time to arrive.
SHOWN = 12  # names of files in a sentence
# The address of a model, as a browser shows it
ADDRESS = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/")
PREFERRED = ("Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_0", "IQ4_NL", "MXFP4", "BF16", "F16", "F32")


class Bar(tqdm):
    """Progress, on a terminal."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **{**options, "disable": not sys.stderr.isatty()})


class Silent(tqdm):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **{**options, "disable": True})


@dataclass
class Remote:
    """One file of a repository; `sha256` of large files, else `blob`, git's name of the content."""

    name: str
    size: int
    sha256: str | None
    blob: str | None


@dataclass
class Model:
    """What was chosen of a repository, at one commit."""

    name: str
    commit: str
    licence: str
    texts: list[Remote]  # config, tokenizer, licence: small
    weights: list[Remote]  # safetensors, or the parts of one GGUF
    notes: list[str] = field(default_factory=list)
    cached: Path | None = None  # the folder of the cache that holds it, when the hub must not be asked

    @property
    def files(self) -> list[Remote]:
        return self.texts + self.weights

    @property
    def bytes(self) -> int:
        return sum(f.size for f in self.files)

    def source(self, folder: Path) -> Path:
        """What the converter reads: the folder, or the first part of the GGUF."""
        return folder / self.weights[0].name if self.weights[0].name.endswith(".gguf") else folder


def plain_name(text: str) -> str:
    """A name without what a browser or a copied line has around it."""
    text = text.strip().removeprefix(constants.ENDPOINT + "/")
    return ADDRESS.sub("", text, count=1).removesuffix("/").replace("/tree/", "@", 1)


def look_up(text: str) -> Model:
    """The model of a name and what of it is needed. One request, and one more for the index of shards."""
    found = NAME.fullmatch(plain_name(text))
    if text and Path(text).exists() and (not found or text.startswith((".", "/"))):
        raise ConvertError(f"{text} is here already: `tools/convert.py {text} OUT.bin` converts it", USAGE)
    if not found:
        raise ConvertError(f"{text!r} is no name of a model: a name has the form owner/model", USAGE)
    token = hf.get_token() or ""
    if not (token.isascii() and token.isprintable()):
        raise ConvertError("HF_TOKEN has characters that no token has", USAGE)
    name, revision = found["name"], found["revision"]
    if constants.HF_HUB_OFFLINE:
        return cached(name, revision, found["file"])
    with answers(name, revision):
        info = hf.HfApi().model_info(name, revision=revision, files_metadata=True, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT)
    if info.sha is None or info.siblings is None:
        raise ConvertError(f"{constants.ENDPOINT} does not list the files of {name}", IO)
    files = {f.rfilename: Remote(f.rfilename, f.size or 0, f.lfs.sha256 if f.lfs else None, f.blob_id) for f in info.siblings}
    model = Model(name, info.sha, licence(info), [], [])
    if info.id and info.id.lower() != name.lower():
        model.notes.append(f"{name} is now called {info.id}")
    return choose(model, {n: f for n, f in files.items() if stays_inside(n)}, found["file"])


def stays_inside(name: str) -> bool:
    """Whether the name of a file leads to a place below its folder."""
    return not name.startswith("/") and ".." not in name.split("/") and "\\" not in name


def choose(model: Model, files: dict[str, Remote], wanted: str | None) -> Model:
    """The files that are needed, of all that there are."""
    model.texts = [files[t] for t in dict.fromkeys(TEXTS) if t in files]
    model.weights = weights(model, files, wanted)
    if model.weights[0].name.endswith(".gguf"):
        model.texts = [t for t in model.texts if t.name in (*LICENCES, "README.md")]
    return model


def cached(name: str, revision: str | None, wanted: str | None) -> Model:
    """The model as the cache holds it, of several commits the newest that is whole."""
    base = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}")
    ref = base / "refs" / (revision or "main")
    commit = ref.read_text().strip() if ref.is_file() else revision or "*"
    lacks = f"{name} is not in the cache, and HF_HUB_OFFLINE forbids to load it"
    for folder in sorted(base.glob(f"snapshots/{commit}"), key=os.path.getmtime, reverse=True):
        model = Model(name, folder.name, "as in the cache", [], [], cached=folder)
        try:
            return choose(model, listing(folder), wanted)
        except ConvertError as e:
            lacks = f"{name} is not whole in the cache, and HF_HUB_OFFLINE forbids to load the rest: {e}"
    raise ConvertError(lacks, IO)


def listing(folder: Path) -> dict[str, Remote]:
    """What a folder of the cache holds. Each file is a link to one that has its checksum as a name."""
    out = {}
    for path in (p for p in folder.rglob("*") if p.is_file()):
        name, sum_of = path.relative_to(folder).as_posix(), path.resolve().name
        known = re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", sum_of) and path.is_symlink()
        size = path.stat().st_size
        out[name] = Remote(name, size, sum_of if known and len(sum_of) == 64 else None, sum_of if known and len(sum_of) == 40 else None)
    return out


def licence(info) -> str:
    """The licence that the model card states."""
    card = info.card_data.to_dict() if info.card_data else {}
    stated = card.get("license_name") or card.get("license")
    return ", ".join(stated) if isinstance(stated, list) else str(stated or "none stated")


def weights(model: Model, files: dict[str, Remote], wanted: str | None) -> list[Remote]:
    """The files that hold the weights."""
    parts = ggufs(files)
    if wanted is None and "model.safetensors" in files:
        return [files["model.safetensors"]]
    if wanted is None and INDEX in files:
        return [files[INDEX], *shards(model, files)]
    if parts:
        return chosen(model.name, parts, wanted, model.notes)
    if wanted is not None:
        raise ConvertError(f"{model.name} has no GGUF files, so there is no {wanted!r} to choose", USAGE)
    pickles = any(f.endswith((".bin", ".pt", ".pth")) for f in files)
    why = "only PyTorch pickles, which may run code when read" if pickles else "no safetensors and no GGUF file"
    raise ConvertError(f"{model.name} has {why}; look for a copy of it as safetensors or GGUF")


def shards(model: Model, files: dict[str, Remote]) -> list[Remote]:
    """The files that the index names."""
    places = read_object(fetch(model, INDEX)).get("weight_map")
    named = sorted({p for p in places.values() if isinstance(p, str)}) if isinstance(places, dict) else []
    lost = [n for n in named if n not in files]
    if lost or not named:
        raise ConvertError(f"{model.name}: {INDEX} names {lost[0] if lost else 'no file'}, which the repository does not hold")
    return [files[n] for n in named]


def ggufs(files: dict[str, Remote]) -> dict[str, list[Remote]]:
    """The GGUF models of a repository by their names without .gguf: the parts of each in order."""
    out: dict[str, list[Remote]] = {}
    for name in sorted(files):
        stem = PurePosixPath(name).name
        if name.endswith(".gguf") and not re.search(r"mmproj|imatrix", stem, re.I):
            part = PART.fullmatch(stem)
            whole = str(PurePosixPath(name).with_name(part[1])) if part else name.removesuffix(".gguf")
            out.setdefault(whole, []).append(files[name])
    return out


def whole(parts: list[Remote]) -> list[Remote]:
    """All parts of one GGUF, none of which may be missing."""
    found = [PART.fullmatch(PurePosixPath(p.name).name) for p in parts]
    numbers = [int(part[2]) for part in found if part]
    if numbers and numbers != list(range(1, int(found[0][3]) + 1)):
        raise ConvertError(f"{parts[0].name}: {len(numbers)} of {int(found[0][3])} parts are there, so the model is not whole", IO)
    return parts


def chosen(name: str, parts: dict[str, list[Remote]], wanted: str | None, notes: list[str]) -> list[Remote]:
    """The GGUF that was asked for, by the name of its file or its type; else the first that PREFERRED names."""
    for kind in [wanted.removesuffix(".gguf")] if wanted else PREFERRED:
        ends = re.compile(rf"(^|[^A-Za-z0-9]){re.escape(kind)}$", re.I)
        hits = [w for w in parts if w == kind] or sorted((w for w in parts if ends.search(w)), key=len)
        if len(hits) > 1:
            notes.append(f"{hits[0]} is taken; {listed(hits[1:])} would fit, too: name one as {name}:FILE")
        if hits:
            return whole(parts[hits[0]])
    if wanted is None and len(parts) == 1:
        return whole(next(iter(parts.values())))
    what = f"no {wanted!r}" if wanted else "several"
    raise ConvertError(f"{name} holds {what} of these GGUF files: {listed(list(parts))}; name one as {name}:TYPE", USAGE)


def listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def fetch(model: Model, name: str) -> Path:
    """One small file, in the hub's cache."""
    if model.cached:
        return model.cached / name
    with answers(model.name, model.commit):
        return Path(hf.hf_hub_download(model.name, name, revision=model.commit))


def begin(model: Model, name: str, n: int) -> bytes:
    """The first n bytes of a file, or all of a shorter one."""
    if model.cached:
        with open(model.cached / name, "rb") as f:
            return f.read(n)
    url = hf.hf_hub_url(model.name, name, revision=model.commit)
    headers = hf.utils.build_hf_headers() | {"Range": f"bytes=0-{n - 1}"}
    with answers(model.name, model.commit):
        for left in reversed(range(TRIES)):
            try:
                return _beginning(url, headers, n)
            except Exception as e:
                if not left or not _of_network(e):
                    raise
    raise AssertionError


def _beginning(url: str, headers: dict[str, str], n: int) -> bytes:
    out = bytearray()
    with hf.get_session().stream("GET", url, headers=headers, follow_redirects=True, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as answer:
        hf.utils.hf_raise_for_status(answer)
        for piece in answer.iter_bytes():
            out += piece
            if len(out) >= n:  # a server may ignore the range
                break
    return bytes(out[:n])


def _of_network(e: Exception) -> bool:
    """An error of the HTTP package, whose errors share no class with the standard ones."""
    return type(e).__module__.split(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2")


def download(model: Model, say: Callable[[str], None]) -> Path:
    """The folder that holds the files. What is wrong on the disk is loaded once more."""
    for again in (False, True):
        folder = model.cached or _snapshot(model)
        wrong = [f for f in model.files if not intact(folder / f.name, f)]
        if not wrong:
            return folder
        if model.cached:
            raise ConvertError(f"{wrong[0].name} of {model.name} is damaged in the cache; load it without HF_HUB_OFFLINE", IO)
        for f in wrong:
            (folder / f.name).resolve().unlink(missing_ok=True)
            (folder / f.name).unlink(missing_ok=True)
        names = ", ".join(f.name for f in wrong)
        if again:
            raise ConvertError(f"{names} of {model.name} arrived twice with another checksum than the hub states; try again later", IO)
        say(f"{names}: the checksum is not the hub's; loading again")
    raise AssertionError


def _snapshot(model: Model) -> Path:
    names = [f.name.replace("[", "[[]") for f in model.files]  # they are patterns
    with answers(model.name, model.commit):
        planned = hf.snapshot_download(model.name, revision=model.commit, allow_patterns=names, dry_run=True, tqdm_class=Silent)
        need = sum(f.file_size for f in planned if f.will_download)
        room(need)
        # One after another, in this thread: a signal would wait for the threads of snapshot_download.
        paths = [hf.hf_hub_download(model.name, f.name, revision=model.commit, tqdm_class=Bar) for f in model.files]
    return Path(paths[-1]).parents[model.files[-1].name.count("/")]


def room(need: int) -> None:
    """Fails before the first byte when the cache's disk has no room."""
    cache = Path(constants.HF_HUB_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if free < need:
        raise ConvertError(f"the download needs {size(need)} in {cache}, and {size(free)} are free; HF_HOME names another place", IO)


def intact(path: Path, file: Remote) -> bool:
    """Whether a file has the size and checksum that the hub states."""
    if not path.exists() or path.stat().st_size != file.size:
        return False
    if file.sha256 is None and file.blob is None:
        return True
    digest = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with open(path, "rb") as f:
        while piece := f.read(1 << 22):
            digest.update(piece)
    return digest.hexdigest() == (file.sha256 or file.blob)


@contextmanager
def answers(name: str, revision: str | None) -> Iterator[None]:
    """What may go wrong between here and the hub, each as the sentence that helps."""
    hub, token = constants.ENDPOINT, bool(hf.get_token())
    try:
        yield
    except errors.GatedRepoError:
        why = "the account of your token has no access yet" if token else f"then set HF_TOKEN to a token of {hub}/settings/tokens"
        raise ConvertError(f"{name} is gated: ask for access on {hub}/{name}; {why}", USAGE) from None
    except errors.DisabledRepoError:
        raise ConvertError(f"{name}: the hub has taken this model down", IO) from None
    except errors.RevisionNotFoundError:
        raise ConvertError(f"{name} has no revision {revision!r}; its branches are on {hub}/{name}", USAGE) from None
    except errors.RepositoryNotFoundError:
        private = "or your token may not read it" if token else "or it is private and needs HF_TOKEN"
        raise ConvertError(f"{hub} has no model {name}, {private}{similar(name)}", USAGE) from None
    except errors.HFValidationError as e:
        raise ConvertError(f"{name!r} is no name of a model: {' '.join(str(e).split())[:200]}", USAGE) from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError):
        raise ConvertError(f"{name} is not in the cache, and {hub} cannot be reached (HF_HUB_OFFLINE, or no network)", IO) from None
    except errors.HfHubHTTPError as e:
        raise ConvertError(_refusal(name, e, token), IO) from None
    except MemoryError:
        raise ConvertError("not enough memory", MEMORY) from None
    except ValueError as e:  # a proxy without a scheme that is known, an answer that is no JSON
        why = " ".join(str(e).split())[:200]
        raise ConvertError(f"cannot talk with {hub}: {why}; check HF_ENDPOINT, http_proxy and https_proxy", IO) from None
    except OSError as e:
        if e.errno is None:  # of the network, not of the disk
            raise ConvertError(f"{hub}: {' '.join(str(e).split())[:200]}", IO) from None
        raise
    except errors.DryRunError as e:
        cause = e.__cause__
        raise ConvertError(f"{hub} does not list the files of {name}: {' '.join(str(cause or e).split())[:200]}", IO) from None
    except Exception as e:
        if not _of_network(e):
            raise
        raise ConvertError(f"cannot reach {hub}: {' '.join(str(e).split())[:200] or type(e).__name__}; what has arrived is kept", IO) from None


def _refusal(name: str, e, token: bool) -> str:
    """An answer of the hub that is none of the known ones."""
    status = getattr(e.response, "status_code", 0)
    if status == 429:
        wait = e.response.headers.get("Retry-After", "")
        when = f"in {wait} s" if wait.isdigit() else "later"
        return f"the hub has had too many requests from here: try again {when}{'' if token else ', or set HF_TOKEN'}"
    if status == 401 and token:
        return f"the hub does not accept the token of HF_TOKEN (status 401): unset it, or make a new one on {constants.ENDPOINT}/settings/tokens"
    if status in (401, 403):
        return f"the hub does not let {'this token' if token else 'you'} read {name} (status {status}); HF_TOKEN holds the token"
    return f"the hub failed with status {status or 'unknown'} for {name}; try again later. What has arrived is kept"


def similar(name: str) -> str:
    """Models whose names are near, for a mistyped one."""
    try:
        near = [m.id for m in hf.HfApi().list_models(search=name.split("/")[-1], sort="downloads", limit=3)]
    except Exception:
        return ""
    return f"; there are {', '.join(near)}" if near else ""


def to_folder(text: str, say: Callable[[str], None]) -> Path:
    """A name in, a path that the converter reads out."""
    model = look_up(text)
    for note in model.notes:
        say(note)
    say(f"{model.name}: {size(model.bytes)}, licence {model.licence}")
    return model.source(download(model, say))
