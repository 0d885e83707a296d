/**
 * `fetch` for streams: over the tab's socket, or as plain requests where a proxy forbids sockets (at most four at
 * once).
 */
import { SERVER_ROOT } from '@/lib/server-path';
import { ConnectionLost, SocketUnavailable, Socket } from './socket';

const MAX_SOCKET_BODY_BYTES = 1024 * 1024;
const MAX_PLAIN_REQUESTS = 4;

const origin = window.location.origin.replace(/^http/, 'ws');
export const socket = new Socket(`${origin}${SERVER_ROOT}/api/socket`);

let plainRequests = 0;
/** Each resolver takes over the slot of a request that ended. */
const waitingRequests = new Set<() => void>();

export const streamFetch: typeof fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : String(input), window.location.href);
  const body = init?.body ?? undefined;
  if (url.origin === window.location.origin && canUseSocket(body)) {
    try {
      return await socket.request(
        {
          method: init?.method ?? 'GET',
          path: url.pathname.slice(SERVER_ROOT.length) + url.search,
          headers: Object.fromEntries(new Headers(init?.headers)),
          ...(body ? { body } : {}),
        },
        init?.signal,
      );
    } catch (error) {
      // Nothing was sent, so plain fetch is safe. Requests lost after sending are left to the caller.
      if (!(error instanceof SocketUnavailable)) throw error;
    }
  }
  return fetchInSlot(url, init);
};

/** The server limits bytes per message; a character has at most three, and JSON adds quotes. */
const canUseSocket = (body: RequestInit['body'] | undefined): body is string | undefined =>
  body === undefined || (typeof body === 'string' && body.length < MAX_SOCKET_BODY_BYTES / 4);

async function fetchInSlot(url: URL, init?: RequestInit): Promise<Response> {
  await acquireSlot(init?.signal);
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    releaseSlot();
    throw toConnectionLost(error);
  }
  if (!response.body) {
    releaseSlot();
    return response;
  }
  const relay = new TransformStream<Uint8Array, Uint8Array>();
  void pipeBody(response.body, relay.writable).finally(releaseSlot);
  return new Response(relay.readable, { status: response.status, headers: response.headers });
}

/** Pipe a body; errors other than an abort become ConnectionLost for the reader. */
async function pipeBody(body: ReadableStream<Uint8Array>, destination: WritableStream<Uint8Array>): Promise<void> {
  try {
    await body.pipeTo(destination, { preventAbort: true });
  } catch (error) {
    await destination.abort(toConnectionLost(error)).catch(() => {});
  }
}

const toConnectionLost = (error: unknown): unknown =>
  error instanceof Error && error.name === 'AbortError' ? error : new ConnectionLost();

async function acquireSlot(signal?: AbortSignal | null): Promise<void> {
  signal?.throwIfAborted();
  if (plainRequests < MAX_PLAIN_REQUESTS) {
    plainRequests += 1;
    return;
  }
  await new Promise<void>((resolve, reject) => {
    const onSlot = () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };
    const onAbort = () => {
      waitingRequests.delete(onSlot);
      reject(signal?.reason as Error);
    };
    waitingRequests.add(onSlot);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function releaseSlot(): void {
  const [next] = waitingRequests;
  if (next) {
    waitingRequests.delete(next);
    next();
  } else plainRequests -= 1;
}
