/** `fetch` for streams: over the tab's socket, or plainly where a proxy forbids sockets (then at most four at once). */
import { ROOT } from '@/lib/root';
import { NoSocket, Socket } from './socket';

const SOCKET_BODY = 1024 * 1024;
const PLAIN_AT_ONCE = 4;

const origin = window.location.origin.replace(/^http/, 'ws');
export const socket = new Socket(`${origin}${ROOT}/api/socket`);

let plain = 0;
const waiting: (() => void)[] = [];

export const streamFetch: typeof fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : String(input), window.location.href);
  const body = init?.body;
  const fits = url.origin === window.location.origin && (body === undefined || body === null || typeof body === 'string');
  if (fits && (!body || (body as string).length < SOCKET_BODY / 4)) {
    try {
      return await socket.request(
        {
          method: init?.method ?? 'GET',
          path: url.pathname.slice(ROOT.length) + url.search,
          headers: Object.fromEntries(new Headers(init?.headers)),
          ...(body ? { body: body as string } : {}),
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

async function plainly(url: URL, init?: RequestInit): Promise<Response> {
  if (plain >= PLAIN_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  plain += 1;
  const left = () => {
    plain -= 1;
    waiting.shift()?.();
  };
  try {
    const answer = await fetch(url, init);
    if (!answer.body) {
      left();
      return answer;
    }
    const through = new TransformStream<Uint8Array, Uint8Array>();
    void answer.body.pipeTo(through.writable).catch(() => {}).finally(left);
    return new Response(through.readable, { status: answer.status, headers: answer.headers });
  } catch (error) {
    left();
    throw error;
  }
}
