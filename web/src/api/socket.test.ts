import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { fakeSockets, type FakeSocket } from '@/testing/fake-socket';
import { ConnectionLost, SocketUnavailable, Socket, type Notice } from './socket';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const REQUEST = { method: 'GET', path: '/x', headers: {} };
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } };

function openSocket(): { socket: Socket; sockets: FakeSocket[]; connection: FakeSocket } {
  const { sockets, createSocket } = fakeSockets();
  const socket = new Socket('ws://here/api/socket', createSocket);
  socket.listen(() => {});
  const [connection] = sockets;
  if (!connection) throw new Error('No socket was made.');
  connection.open();
  return { socket, sockets, connection };
}

/** Let promises settle. */
const settle = () => vi.advanceTimersByTimeAsync(0);

describe('requests over one socket', () => {
  test('are matched to interleaved responses by their ids', async () => {
    const { socket, sockets, connection } = openSocket();
    const first = socket.request({ method: 'POST', path: '/tutor/api/chat', headers: { a: 'b' }, body: '{}' });
    const second = socket.request(REQUEST);
    await settle();
    expect(connection.sent).toEqual([
      { id: 1, method: 'POST', path: '/tutor/api/chat', headers: { a: 'b' }, body: '{}' },
      { id: 2, ...REQUEST },
    ]);
    connection.sendFrames(
      { id: 2, ...HEAD, status: 404 },
      { id: 1, ...HEAD },
      { id: 2, data: 'no' },
      { id: 1, data: 'ü' },
      { id: 2, end: true },
      { id: 1, data: 'b' },
      { id: 1, end: true },
    );
    expect([(await first).status, (await first).headers.get('content-type'), await (await first).text()]).toEqual([
      200,
      'text/event-stream',
      'üb',
    ]);
    expect([(await second).status, await (await second).text()]).toEqual([404, 'no']);
    expect(sockets).toHaveLength(1);
  });

  test('can have a response without a body', async () => {
    const { socket, connection } = openSocket();
    const response = socket.request(REQUEST);
    await settle();
    connection.sendFrames({ id: 1, status: 204, headers: {} }, { id: 1, end: true });
    expect([(await response).status, (await response).body]).toEqual([204, null]);
  });

  test('are rejected with the error message of the server', async () => {
    const { socket, connection } = openSocket();
    const response = socket.request(REQUEST);
    response.catch(() => {});
    await settle();
    connection.sendFrames({ id: 1, error: { code: 'rate_limited', message: 'Too many.' } });
    await expect(response).rejects.toThrow('Too many.');
  });

  test('fail with ConnectionLost if the server interrupts the response', async () => {
    const { socket, connection } = openSocket();
    const response = socket.request(REQUEST);
    await settle();
    connection.sendFrames(
      { id: 1, ...HEAD },
      { id: 1, data: 'a' },
      { id: 1, error: { code: 'interrupted', message: 'It broke off.' } },
    );
    await expect((await response).text()).rejects.toBeInstanceOf(ConnectionLost);
  });

  test('ignore frames with unknown ids', async () => {
    const { socket, connection } = openSocket();
    const response = socket.request(REQUEST);
    await settle();
    connection.sendFrames(
      { id: 9, ...HEAD },
      { id: 9, data: 'x' },
      { id: 9, end: true },
      { id: null, error: { code: 'invalid_json', message: '?' } },
    );
    connection.sendFrames({ id: 1, ...HEAD }, { id: 1, end: true });
    expect(await (await response).text()).toBe('');
  });
});

describe('an aborted request', () => {
  test('is not sent if its signal is already aborted', async () => {
    const { socket, connection } = openSocket();
    await expect(socket.request(REQUEST, AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
    expect(connection.sent).toEqual([]);
  });

  test('fails before its response, the server is notified, and late frames are ignored', async () => {
    const { socket, connection } = openSocket();
    const control = new AbortController();
    const response = socket.request(REQUEST, control.signal);
    response.catch(() => {});
    await settle();
    control.abort();
    await expect(response).rejects.toMatchObject({ name: 'AbortError' });
    expect(connection.sent.slice(1)).toEqual([{ id: 1, abort: true }]);
    const next = socket.request(REQUEST);
    await settle();
    connection.sendFrames({ id: 1, ...HEAD, status: 500 }, { id: 1, data: 'late' }, { id: 1, end: true });
    connection.sendFrames({ id: 2, ...HEAD }, { id: 2, data: 'b' }, { id: 2, end: true });
    expect([(await next).status, await (await next).text()]).toEqual([200, 'b']);
    expect(connection.sent.slice(2)).toEqual([{ id: 2, ...REQUEST }]);
  });

  test('fails during its response, and the server is notified', async () => {
    const { socket, connection } = openSocket();
    const control = new AbortController();
    const response = socket.request(REQUEST, control.signal);
    await settle();
    connection.sendFrames({ id: 1, ...HEAD }, { id: 1, data: 'a' });
    const text = (await response).text();
    text.catch(() => {});
    control.abort();
    await expect(text).rejects.toMatchObject({ name: 'AbortError' });
    expect(connection.sent.slice(1)).toEqual([{ id: 1, abort: true }]);
  });

  test('is aborted when its body is cancelled, and later frames are ignored', async () => {
    const { socket, connection } = openSocket();
    const response = socket.request(REQUEST);
    await settle();
    connection.sendFrames({ id: 1, ...HEAD });
    const cancelled = (await response).body?.cancel();
    connection.sendFrames({ id: 1, data: 'late' }, { id: 1, end: true });
    await cancelled;
    expect(connection.sent.slice(1)).toEqual([{ id: 1, abort: true }]);
  });

  test('is not reported to the server after its end', async () => {
    const { socket, connection } = openSocket();
    const control = new AbortController();
    const response = socket.request(REQUEST, control.signal);
    await settle();
    connection.sendFrames({ id: 1, ...HEAD }, { id: 1, end: true });
    await (await response).text();
    control.abort();
    expect(connection.sent).toHaveLength(1);
  });
});

describe('a connection', () => {
  test('that is lost fails all its requests', async () => {
    const { socket, connection } = openSocket();
    const [waiting, started] = [socket.request(REQUEST), socket.request(REQUEST)];
    waiting.catch(() => {});
    await settle();
    connection.sendFrames({ id: 2, ...HEAD }, { id: 2, data: 'a' });
    const text = (await started).text();
    text.catch(() => {});
    connection.close();
    await expect(waiting).rejects.toBeInstanceOf(ConnectionLost);
    await expect(text).rejects.toBeInstanceOf(ConnectionLost);
  });

  test('that cannot be opened is unavailable', async () => {
    const { sockets, createSocket } = fakeSockets();
    const response = new Socket('ws://here', createSocket).request(REQUEST);
    response.catch(() => {});
    sockets[0]?.close();
    await expect(response).rejects.toBeInstanceOf(SocketUnavailable);
  });

  test('that cannot be created is unavailable, and is tried again for the next request', async () => {
    const createSocket = vi.fn(() => {
      throw new Error('forbidden');
    });
    const socket = new Socket('ws://here', createSocket);
    await expect(socket.request(REQUEST)).rejects.toBeInstanceOf(SocketUnavailable);
    await expect(socket.request(REQUEST)).rejects.toBeInstanceOf(SocketUnavailable);
    expect(createSocket).toHaveBeenCalledTimes(2);
  });

  test('that does not open in time is closed and unavailable', async () => {
    const { sockets, createSocket } = fakeSockets();
    const response = new Socket('ws://here', createSocket).request(REQUEST);
    response.catch(() => {});
    await vi.advanceTimersByTimeAsync(4000);
    await expect(response).rejects.toBeInstanceOf(SocketUnavailable);
    expect(sockets[0]?.readyState).toBe(3);
  });

  test('that is closing accepts no requests', async () => {
    const { socket, connection } = openSocket();
    connection.readyState = 2;
    await expect(socket.request(REQUEST)).rejects.toBeInstanceOf(SocketUnavailable);
  });

  test('is reopened after growing delays, which start over once it has lasted', async () => {
    const { sockets } = openSocket();
    const delays: number[] = [];
    const loseConnection = async () => {
      const before = sockets.length;
      const since = Date.now();
      sockets.at(-1)?.close();
      for (let step = 0; step < 2000 && sockets.length === before; step++) await vi.advanceTimersByTimeAsync(10);
      delays.push(Date.now() - since);
    };
    for (let times = 0; times < 8; times++) await loseConnection();
    sockets.at(-1)?.open();
    await loseConnection();
    sockets.at(-1)?.open();
    await vi.advanceTimersByTimeAsync(10_000);
    await loseConnection();
    expect(delays).toEqual([250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 250]);
  });

  test('is not reopened without listeners', async () => {
    const { sockets, createSocket } = fakeSockets();
    const unsubscribe = new Socket('ws://here', createSocket).listen(() => {});
    sockets[0]?.open();
    unsubscribe();
    sockets[0]?.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets).toHaveLength(1);
  });
});

describe('a listener', () => {
  test('receives notices and connection changes until it unsubscribes', async () => {
    const { sockets, createSocket } = fakeSockets();
    const socket = new Socket('ws://here', createSocket);
    const received: (Notice | boolean)[] = [];
    const unsubscribe = socket.listen(
      (notice) => received.push(notice),
      (connected) => received.push(connected),
    );
    sockets[0]?.open();
    sockets[0]?.sendFrames({ changed: 'thread', ref: 'conv_1', run: 'run_1' });
    sockets[0]?.close();
    await settle();
    unsubscribe();
    await vi.advanceTimersByTimeAsync(250);
    sockets[1]?.open();
    expect(received).toEqual([true, { changed: 'thread', ref: 'conv_1', run: 'run_1' }, false]);
  });

  test('that is registered twice remains after one unsubscription', () => {
    const { sockets, createSocket } = fakeSockets();
    const socket = new Socket('ws://here', createSocket);
    const listener = vi.fn();
    const unsubscribe = socket.listen(listener);
    socket.listen(listener);
    unsubscribe();
    sockets[0]?.open();
    sockets[0]?.sendFrames({ changed: 'thread', ref: 'conv_1' });
    expect(listener).toHaveBeenCalledTimes(1);
  });
});
