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

describe('a streaming request', () => {
  test('is sent over the socket with its method, path, headers and body', async () => {
    const response = new Response('x');
    socketRequest.mockResolvedValue(response);
    const { signal } = new AbortController();
    expect(
      await streamFetch('/tutor/api/chat?a=1', { method: 'POST', headers: { 'X-A': 'b' }, body: '{}', signal }),
    ).toBe(response);
    expect(socketRequest.mock.calls).toEqual([
      [{ method: 'POST', path: '/tutor/api/chat?a=1', headers: { 'x-a': 'b' }, body: '{}' }, signal],
    ]);
    expect(plainFetch).not.toHaveBeenCalled();
  });

  test('falls back to fetch if there is no socket', async () => {
    const init = { method: 'POST', body: '{}' };
    await streamFetch('/x', init);
    expect(plainFetch.mock.calls).toEqual([[new URL('/x', ORIGIN), init]]);
  });

  test('is not repeated after the connection was lost', async () => {
    socketRequest.mockRejectedValue(new ConnectionLost());
    await expect(streamFetch('/x')).rejects.toBeInstanceOf(ConnectionLost);
    expect(plainFetch).not.toHaveBeenCalled();
  });

  test('uses fetch directly for another origin or a body that the socket does not support', async () => {
    await streamFetch('https://other.example/x');
    await streamFetch('/x', { method: 'POST', body: 'x'.repeat(256 * 1024) });
    await streamFetch('/x', { method: 'POST', body: new Blob(['x']) });
    expect(socketRequest).not.toHaveBeenCalled();
    expect(plainFetch).toHaveBeenCalledTimes(3);
  });
});

describe('streams over fetch', () => {
  test('are limited to four at once, and each one that ends admits another', async () => {
    const responses = Array.from({ length: 6 }, () => streamFetch('/x'));
    await settle();
    expect(plainFetch).toHaveBeenCalledTimes(4);
    bodies[0]?.close();
    await (await responses[0])?.text();
    await settle();
    expect(plainFetch).toHaveBeenCalledTimes(5);
    await (await responses[1])?.body?.cancel();
    await settle();
    expect(plainFetch).toHaveBeenCalledTimes(6);
    await Promise.all(responses);
  });

  test('skip a request that is aborted while it waits', async () => {
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
    // The aborted request occupies no slot: four can run at once again.
    bodies[1]?.close();
    await (await first[1])?.text();
    await streamFetch('/again');
    expect(plainFetch).toHaveBeenCalledTimes(6);
  });

  test('admit another one after a failure or an empty body', async () => {
    plainFetch
      .mockRejectedValueOnce(new TypeError('Failed to fetch'))
      .mockResolvedValueOnce(new Response(null, { status: 204 }));
    await expect(streamFetch('/x')).rejects.toBeInstanceOf(ConnectionLost);
    expect((await streamFetch('/x')).status).toBe(204);
    await Promise.all(Array.from({ length: 4 }, () => streamFetch('/x')));
    expect(plainFetch).toHaveBeenCalledTimes(6);
  });

  test('fail with ConnectionLost if they are interrupted', async () => {
    const response = await streamFetch('/x');
    const text = response.text();
    text.catch(() => {});
    bodies[0]?.error(new TypeError('network error'));
    await expect(text).rejects.toBeInstanceOf(ConnectionLost);
  });

  test('fail with AbortError if they are aborted', async () => {
    plainFetch.mockRejectedValueOnce(new DOMException('Given up.', 'AbortError'));
    await expect(streamFetch('/x')).rejects.toMatchObject({ name: 'AbortError' });
  });
});
