import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { fakeSockets, type FakeSocket } from '@/testing/fake-socket';
import { ConnectionLost, SocketUnavailable, Socket, type Notice } from './socket';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const ASKED = { method: 'GET', path: '/x', headers: {} };
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } };

function open(): { socket: Socket; made: FakeSocket[]; line: FakeSocket } {
  const { made, make } = fakeSockets();
  const socket = new Socket('ws://here/api/socket', make);
  socket.listen(() => {});
  const [line] = made;
  if (!line) throw new Error('No socket was made.');
  line.opens();
  return { socket, made, line };
}

/** Let promises settle. */
const settle = () => vi.advanceTimersByTimeAsync(0);

describe('requests over one socket', () => {
  test('are told apart by their numbers, however their answers mingle', async () => {
    const { socket, made, line } = open();
    const first = socket.request({ method: 'POST', path: '/tutor/api/chat', headers: { a: 'b' }, body: '{}' });
    const second = socket.request(ASKED);
    await settle();
    expect(line.sent).toEqual([
      { id: 1, method: 'POST', path: '/tutor/api/chat', headers: { a: 'b' }, body: '{}' },
      { id: 2, ...ASKED },
    ]);
    line.tells(
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
    expect(made).toHaveLength(1);
  });

  test('may be answered with nothing', async () => {
    const { socket, line } = open();
    const answer = socket.request(ASKED);
    await settle();
    line.tells({ id: 1, status: 204, headers: {} }, { id: 1, end: true });
    expect([(await answer).status, (await answer).body]).toEqual([204, null]);
  });

  test('are refused with the words of the server', async () => {
    const { socket, line } = open();
    const answer = socket.request(ASKED);
    answer.catch(() => {});
    await settle();
    line.tells({ id: 1, error: { code: 'rate_limited', message: 'Too many.' } });
    await expect(answer).rejects.toThrow('Too many.');
  });

  test('whose answer broke off on the server are lost', async () => {
    const { socket, line } = open();
    const answer = socket.request(ASKED);
    await settle();
    line.tells(
      { id: 1, ...HEAD },
      { id: 1, data: 'a' },
      { id: 1, error: { code: 'interrupted', message: 'It broke off.' } },
    );
    await expect((await answer).text()).rejects.toBeInstanceOf(ConnectionLost);
  });

  test('that nobody knows are passed over', async () => {
    const { socket, line } = open();
    const answer = socket.request(ASKED);
    await settle();
    line.tells(
      { id: 9, ...HEAD },
      { id: 9, data: 'x' },
      { id: 9, end: true },
      { id: null, error: { code: 'invalid_json', message: '?' } },
    );
    line.tells({ id: 1, ...HEAD }, { id: 1, end: true });
    expect(await (await answer).text()).toBe('');
  });
});

describe('a request that is given up', () => {
  test('before it is sent is not sent', async () => {
    const { socket, line } = open();
    await expect(socket.request(ASKED, AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
    expect(line.sent).toEqual([]);
  });

  test('before its answer fails, and the server is told', async () => {
    const { socket, line } = open();
    const control = new AbortController();
    const answer = socket.request(ASKED, control.signal);
    answer.catch(() => {});
    await settle();
    control.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    expect(line.sent.slice(1)).toEqual([{ id: 1, abort: true }]);
    line.tells({ id: 1, ...HEAD }, { id: 1, data: 'late' });
  });

  test('within its answer breaks that off', async () => {
    const { socket, line } = open();
    const control = new AbortController();
    const answer = socket.request(ASKED, control.signal);
    await settle();
    line.tells({ id: 1, ...HEAD }, { id: 1, data: 'a' });
    const text = (await answer).text();
    text.catch(() => {});
    control.abort();
    await expect(text).rejects.toMatchObject({ name: 'AbortError' });
    expect(line.sent.slice(1)).toEqual([{ id: 1, abort: true }]);
  });

  test('by who reads it is given up at once, whatever is still on the way', async () => {
    const { socket, line } = open();
    const answer = socket.request(ASKED);
    await settle();
    line.tells({ id: 1, ...HEAD });
    const gone = (await answer).body?.cancel();
    line.tells({ id: 1, data: 'late' }, { id: 1, end: true });
    await gone;
    expect(line.sent.slice(1)).toEqual([{ id: 1, abort: true }]);
  });

  test('after its end is nothing to tell of', async () => {
    const { socket, line } = open();
    const control = new AbortController();
    const answer = socket.request(ASKED, control.signal);
    await settle();
    line.tells({ id: 1, ...HEAD }, { id: 1, end: true });
    await (await answer).text();
    control.abort();
    expect(line.sent).toHaveLength(1);
  });
});

describe('a connection', () => {
  test('that is lost takes all its answers with it', async () => {
    const { socket, line } = open();
    const [waiting, begun] = [socket.request(ASKED), socket.request(ASKED)];
    waiting.catch(() => {});
    await settle();
    line.tells({ id: 2, ...HEAD }, { id: 2, data: 'a' });
    const text = (await begun).text();
    text.catch(() => {});
    line.close();
    await expect(waiting).rejects.toBeInstanceOf(ConnectionLost);
    await expect(text).rejects.toBeInstanceOf(ConnectionLost);
  });

  test('that cannot be had means that nothing was sent', async () => {
    const { made, make } = fakeSockets();
    const answer = new Socket('ws://here', make).request(ASKED);
    answer.catch(() => {});
    made[0]?.close();
    await expect(answer).rejects.toBeInstanceOf(SocketUnavailable);
  });

  test('that cannot even be tried is the same, and is tried again', async () => {
    const make = vi.fn(() => {
      throw new Error('forbidden');
    });
    const socket = new Socket('ws://here', make);
    await expect(socket.request(ASKED)).rejects.toBeInstanceOf(SocketUnavailable);
    await expect(socket.request(ASKED)).rejects.toBeInstanceOf(SocketUnavailable);
    expect(make).toHaveBeenCalledTimes(2);
  });

  test('that a proxy swallows is given up after a while', async () => {
    const { made, make } = fakeSockets();
    const answer = new Socket('ws://here', make).request(ASKED);
    answer.catch(() => {});
    await vi.advanceTimersByTimeAsync(4000);
    await expect(answer).rejects.toBeInstanceOf(SocketUnavailable);
    expect(made[0]?.readyState).toBe(3);
  });

  test('that is closing takes nothing more', async () => {
    const { socket, line } = open();
    line.readyState = 2;
    await expect(socket.request(ASKED)).rejects.toBeInstanceOf(SocketUnavailable);
  });

  test('is made again after waits that grow, and grow anew once it has lasted', async () => {
    const { made } = open();
    const waits: number[] = [];
    const lost = async () => {
      const before = made.length;
      const since = Date.now();
      made.at(-1)?.close();
      for (let step = 0; step < 2000 && made.length === before; step++) await vi.advanceTimersByTimeAsync(10);
      waits.push(Date.now() - since);
    };
    for (let times = 0; times < 8; times++) await lost();
    made.at(-1)?.opens();
    await lost();
    made.at(-1)?.opens();
    await vi.advanceTimersByTimeAsync(10_000);
    await lost();
    expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 250]);
  });

  test('is not made again when nobody listens', async () => {
    const { made, make } = fakeSockets();
    const leave = new Socket('ws://here', make).listen(() => {});
    made[0]?.opens();
    leave();
    made[0]?.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(made).toHaveLength(1);
  });
});

describe('who listens', () => {
  test('hears notices and of the connection until they leave', async () => {
    const { made, make } = fakeSockets();
    const socket = new Socket('ws://here', make);
    const heard: (Notice | boolean)[] = [];
    const leave = socket.listen(
      (notice) => heard.push(notice),
      (connected) => heard.push(connected),
    );
    made[0]?.opens();
    made[0]?.tells({ changed: 'thread', ref: 'conv_1', run: 'run_1' });
    made[0]?.close();
    await settle();
    leave();
    await vi.advanceTimersByTimeAsync(250);
    made[1]?.opens();
    expect(heard).toEqual([true, { changed: 'thread', ref: 'conv_1', run: 'run_1' }, false]);
  });

  test('twice with one function leaves twice', () => {
    const { made, make } = fakeSockets();
    const socket = new Socket('ws://here', make);
    const heard = vi.fn();
    const leave = socket.listen(heard);
    socket.listen(heard);
    leave();
    made[0]?.opens();
    made[0]?.tells({ changed: 'thread', ref: 'conv_1' });
    expect(heard).toHaveBeenCalledTimes(1);
  });
});
