/** `fetch` for streams: over the tab's socket, or plainly where a proxy forbids sockets (then at most four at once). */
import { ROOT } from '@/lib/server-path';
import { ConnectionLost, NoSocket, Socket } from './socket';

const SOCKET_BODY = 1024 * 1024;
const PLAIN_AT_ONCE = 4;

const origin = window.location.origin.replace(/^http/, 'ws');
export const socket = new Socket(`${origin}${ROOT}/api/socket`);

let plain = 0;
/** Each takes over the place of one that leaves. */
const waiting = new Set<() => void>();

export const streamFetch: typeof fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : String(input), window.location.href);
  const body = init?.body ?? undefined;
  if (url.origin === window.location.origin && fits(body)) {
    try {
      return await socket.request(
        {
          method: init?.method ?? 'GET',
          path: url.pathname.slice(ROOT.length) + url.search,
          headers: Object.fromEntries(new Headers(init?.headers)),
          ...(body ? { body } : {}),
        },
        init?.signal,
      );
    } catch (error) {
      // Nothing was sent, so it may go the plain way. What was sent and lost is the caller's to look after.
      if (!(error instanceof NoSocket)) throw error;
    }
  }
  return plainly(url, init);
};

/** The server takes so many bytes on the socket; a character has at most three, and JSON needs room for its quotes. */
const fits = (body: RequestInit['body'] | undefined): body is string | undefined =>
  body === undefined || (typeof body === 'string' && body.length < SOCKET_BODY / 4);

async function plainly(url: URL, init?: RequestInit): Promise<Response> {
  await entered(init?.signal);
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    leave();
    throw lost(error);
  }
  if (!answer.body) {
    leave();
    return answer;
  }
  const through = new TransformStream<Uint8Array, Uint8Array>();
  void passed(answer.body, through.writable).finally(leave);
  return new Response(through.readable, { status: answer.status, headers: answer.headers });
}

/** Whichever way an answer breaks off, it is the same to who reads it. */
async function passed(body: ReadableStream<Uint8Array>, to: WritableStream<Uint8Array>): Promise<void> {
  try {
    await body.pipeTo(to, { preventAbort: true });
  } catch (error) {
    await to.abort(lost(error)).catch(() => {});
  }
}

const lost = (error: unknown): unknown =>
  error instanceof Error && error.name === 'AbortError' ? error : new ConnectionLost();

async function entered(signal?: AbortSignal | null): Promise<void> {
  signal?.throwIfAborted();
  if (plain < PLAIN_AT_ONCE) {
    plain += 1;
    return;
  }
  await new Promise<void>((resolve, reject) => {
    const goIn = () => {
      signal?.removeEventListener('abort', giveUp);
      resolve();
    };
    const giveUp = () => {
      waiting.delete(goIn);
      reject(signal?.reason as Error);
    };
    waiting.add(goIn);
    signal?.addEventListener('abort', giveUp, { once: true });
  });
}

function leave(): void {
  const [next] = waiting;
  if (next) {
    waiting.delete(next);
    next();
  } else plain -= 1;
}
