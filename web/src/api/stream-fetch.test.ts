import { afterEach, beforeEach, describe, expect, test, vi, type MockInstance } from 'vitest';
import { ConnectionLost, SocketUnavailable } from './socket';
import { socket, streamFetch } from './stream-fetch';

const ORIGIN = window.location.origin;
let socketRequest: MockInstance<typeof socket.request>;
let bodies: ReadableStreamDefaultController<Uint8Array>[];
let plainFetch: ReturnType<typeof vi.fn<typeof fetch>>;

beforeEach(() => {
  socketRequest = vi.spyOn(socket, 'request').mockRejectedValue(new SocketUnavailable());
  bodies = [];
  plainFetch = vi.fn<typeof fetch>(
    async () => new Response(new ReadableStream<Uint8Array>({ start: (controller) => void bodies.push(controller) })),
  );
  vi.stubGlobal('fetch', plainFetch);
});
afterEach(() => {
  for (const body of bodies) {
    try {
      body.close();
    } catch {
      // The test has closed it.
    }
  }
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const settle = () => new Promise((resolve) => setTimeout(resolve, 5));

describe('a stream', () => {
  test('is asked for over the socket, as it would be plainly', async () => {
    const answer = new Response('x');
    socketRequest.mockResolvedValue(answer);
    const { signal } = new AbortController();
    expect(
      await streamFetch('/tutor/api/chat?a=1', { method: 'POST', headers: { 'X-A': 'b' }, body: '{}', signal }),
    ).toBe(answer);
    expect(socketRequest.mock.calls).toEqual([
      [{ method: 'POST', path: '/tutor/api/chat?a=1', headers: { 'x-a': 'b' }, body: '{}' }, signal],
    ]);
    expect(plainFetch).not.toHaveBeenCalled();
  });

  test('goes the plain way where there is no socket', async () => {
    const init = { method: 'POST', body: '{}' };
    await streamFetch('/x', init);
    expect(plainFetch.mock.calls).toEqual([[new URL('/x', ORIGIN), init]]);
  });

  test('that was lost is not asked for twice', async () => {
    socketRequest.mockRejectedValue(new ConnectionLost());
    await expect(streamFetch('/x')).rejects.toBeInstanceOf(ConnectionLost);
    expect(plainFetch).not.toHaveBeenCalled();
  });

  test('of another server, or with a body that the socket does not take, goes the plain way at once', async () => {
    await streamFetch('https://other.example/x');
    await streamFetch('/x', { method: 'POST', body: 'x'.repeat(256 * 1024) });
    await streamFetch('/x', { method: 'POST', body: new Blob(['x']) });
    expect(socketRequest).not.toHaveBeenCalled();
    expect(plainFetch).toHaveBeenCalledTimes(3);
  });
});

describe('of plain streams', () => {
  test('four run at once, and each that ends lets one in', async () => {
    const answers = Array.from({ length: 6 }, () => streamFetch('/x'));
    await settle();
    expect(plainFetch).toHaveBeenCalledTimes(4);
    bodies[0]?.close();
    await (await answers[0])?.text();
    await settle();
    expect(plainFetch).toHaveBeenCalledTimes(5);
    await (await answers[1])?.body?.cancel();
    await settle();
    expect(plainFetch).toHaveBeenCalledTimes(6);
    await Promise.all(answers);
  });

  test('one that is given up while it waits leaves its place to the next', async () => {
    const control = new AbortController();
    const first = Array.from({ length: 4 }, () => streamFetch('/x'));
    const waiting = streamFetch('/given-up', { signal: control.signal });
    const next = streamFetch('/next');
    waiting.catch(() => {});
    await settle();
    control.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    bodies[0]?.close();
    await (await first[0])?.text();
    await next;
    expect(plainFetch.mock.calls.map(([url]) => (url as URL).pathname)).toEqual(['/x', '/x', '/x', '/x', '/next']);
    // And nothing is lost by it: four are at once again.
    bodies[1]?.close();
    await (await first[1])?.text();
    await streamFetch('/again');
    expect(plainFetch).toHaveBeenCalledTimes(6);
  });

  test('those that fail or have no body let others in, too', async () => {
    plainFetch
      .mockRejectedValueOnce(new TypeError('Failed to fetch'))
      .mockResolvedValueOnce(new Response(null, { status: 204 }));
    await expect(streamFetch('/x')).rejects.toBeInstanceOf(ConnectionLost);
    expect((await streamFetch('/x')).status).toBe(204);
    await Promise.all(Array.from({ length: 4 }, () => streamFetch('/x')));
    expect(plainFetch).toHaveBeenCalledTimes(6);
  });

  test('one that breaks off is lost like one of the socket', async () => {
    const answer = await streamFetch('/x');
    const text = answer.text();
    text.catch(() => {});
    bodies[0]?.error(new TypeError('network error'));
    await expect(text).rejects.toBeInstanceOf(ConnectionLost);
  });

  test('one that is given up says so', async () => {
    plainFetch.mockRejectedValueOnce(new DOMException('Given up.', 'AbortError'));
    await expect(streamFetch('/x')).rejects.toMatchObject({ name: 'AbortError' });
  });
});
