"""What a handler finds in its application: the runtime, how the door is set, known hashes, who listens to a stream."""

from aiohttp import web

from harnessd.api.door import Door
from harnessd.api.listeners import Listeners
from harnessd.daemon.assemble import Runtime
from harnessd.tools.artifact_content import KnownHashes

RUNTIME: web.AppKey[Runtime] = web.AppKey("runtime", Runtime)
DOOR: web.AppKey[Door] = web.AppKey("door", Door)
HASHES: web.AppKey[KnownHashes] = web.AppKey("hashes", KnownHashes)
LISTENERS: web.AppKey[Listeners] = web.AppKey("listeners", Listeners)
