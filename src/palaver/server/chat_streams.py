"""Resume and stop the streams of AI SDK chats: GET /api/chat/{id}/stream and POST /api/chat/{id}/stop."""

from palaver.discovery.registry import Registry
from palaver.engine.run_reader import RunReader, started_event
from palaver.protocols.base import HttpResponse
from palaver.protocols.ui_stream import adapter as ui_stream
from palaver.protocols.ui_stream.request import restore_ui_request
from palaver.server.calls import CallHandler
from palaver.server.conversation_history import with_message_id
from palaver.server.replay import replay_events
from palaver.server.request import Exchange
from palaver.server.routing import RouteMatch
from palaver.server.settings import Settings


class ChatStreams:
    def __init__(self, registry: Registry, settings: Settings, calls: CallHandler, run_reader: RunReader) -> None:
        self._registry = registry
        self._settings = settings
        self._calls = calls
        self._run_reader = run_reader

    async def resume(self, exchange: Exchange, route: RouteMatch) -> None:
        """Stream the running response of a chat from its start. The AI SDK expects 204 if nothing runs."""
        project, workflow = exchange.caller.project, self._registry.find(route.workflow).name
        run = await self._calls.find_active_run(project, workflow, route.parameters["id"])
        if run is None:
            await exchange.respond(HttpResponse(status=204))
            return
        stored = await self._run_reader.get_run(project, run)
        ui_request = restore_ui_request(stored.reading)
        if stored.row.thread is not None:
            ui_request = with_message_id(ui_request, run)
        started = started_event(stored.row)
        head = ui_stream.response_head(started, ui_request)
        assert head is not None
        batches = self._run_reader.follow(project, run)
        stall = self._settings.stream_stall
        encode = ui_stream.stream_encoder(ui_request)
        await replay_events(exchange, head, encode, batches, stall=stall, started=started)

    async def stop(self, exchange: Exchange, route: RouteMatch) -> None:
        """Cancel the runs of a chat, if any."""
        workflow = self._registry.find(route.workflow).name
        await self._calls.interrupt_session(exchange.caller.project, workflow, route.parameters["id"])
        await exchange.respond(HttpResponse(status=204))
