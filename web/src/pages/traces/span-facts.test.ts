import { describe, expect, test } from 'vitest';
import { splitInputs, omittedInputsNotice } from '@/components/open-in-playground';
import { fetchWholePart } from './detail/span-content';
import { isRunning, type Part, type Summary } from './queries';
import { spanFacts, sortedEntries, sessionPath, shortText } from './span-facts';

describe('the facts of a span', () => {
  test('are listed in a fixed order, with a link to the session', () => {
    const facts = spanFacts({
      trace_id: 't',
      span_id: 's',
      kind: 'llm',
      start: '2026-11-15T07:20:00Z',
      duration_ms: 812.4,
      model: 'gpt-4o',
      provider: 'openai',
      finish: 'stop',
      cost: 0.0002,
      cost_source: 'reported',
      usage: { input_tokens: 1031, output_tokens: 9, cached_input_tokens: 3 },
      session: 'a/b',
      run_id: 'run_1',
      conventions: ['gen_ai', 'events'],
    });
    expect(facts.map(({ label, text }) => `${label}: ${text}`)).toEqual([
      'Kind: llm',
      'Model: gpt-4o',
      'Provider: openai',
      'Started: 2026-11-15T07:20:00Z',
      'Duration: 812 ms',
      'Finish reason: stop',
      'Tokens: 1,031 in, 3 cached, 9 out',
      'Cost: $0.0002, reported',
      'Session: a/b',
      'Run: run_1',
      'Conventions: gen_ai, events',
    ]);
    expect(facts.find(({ label }) => label === 'Session')?.href).toBe('/sessions/_?session=a%2Fb');
  });

  test('omit values that were not sent', () => {
    expect(spanFacts({ trace_id: 't', span_id: 's', start: '2026-11-15T07:20:00Z' }).map(({ label }) => label)).toEqual(
      ['Started', 'Duration'],
    );
  });
});

test('puts only plain session names into the path, and others into the query', () => {
  expect(['s-1', 'a/b', '..', '.', '_', 'ü', '', 'javascript:x'].map(sessionPath)).toEqual([
    '/sessions/s-1',
    '/sessions/_?session=a%2Fb',
    '/sessions/_?session=..',
    '/sessions/_?session=.',
    '/sessions/_?session=_',
    '/sessions/_?session=%C3%BC',
    '/sessions/_?session=',
    '/sessions/_?session=javascript%3Ax',
  ]);
});

describe('untrusted data', () => {
  const hostile = JSON.parse('{"b": 1, "__proto__": {"polluted": 1}, "constructor": 2, "a": 3}') as object;

  test('has names such as __proto__ listed like any others', () => {
    expect(sortedEntries(hostile)).toEqual([
      ['__proto__', { polluted: 1 }],
      ['a', 3],
      ['b', 1],
      ['constructor', 2],
    ]);
  });

  test('is omitted from the inputs that a workflow does not declare', () => {
    const { accepted, omitted } = splitInputs(hostile as Record<string, unknown>, { properties: { a: {} } });
    expect([accepted, omitted]).toEqual([{ a: 3 }, ['b', '__proto__', 'constructor']]);
    expect(({} as Record<string, unknown>)['polluted']).toBe(undefined);
  });

  test('is shortened to one line', () => {
    expect([shortText('x'.repeat(400), 5), shortText({ a: [1] }), shortText(undefined)]).toEqual([
      'xxxxx…',
      '{"a":[1]}',
      'undefined',
    ]);
  });
});

describe('opening in the playground', () => {
  test('passes the inputs that the workflow accepts', () => {
    expect(splitInputs({ a: 1, b: 2 }, { properties: { a: {} }, additionalProperties: true })).toEqual({
      accepted: { a: 1, b: 2 },
      omitted: [],
    });
    expect(splitInputs({ a: 1 }, undefined)).toEqual({ accepted: {}, omitted: ['a'] });
  });

  test('reports the omitted inputs briefly', () => {
    expect(omittedInputsNotice('tutor', [])).toBe(null);
    expect(omittedInputsNotice('tutor', ['top_p'])).toBe('Left out values that tutor does not accept: top_p.');
    expect(omittedInputsNotice('tutor', ['a', 'b', 'c', 'd', 'x'.repeat(99)])).toBe(
      'Left out values that tutor does not accept: a, b, c and 2 more.',
    );
  });
});

describe('a part that is too long for one response', () => {
  const text = JSON.stringify({ long: 'x'.repeat(25) });
  const piece = (offset: number) => ({
    part: 'inputs' as Part,
    offset,
    total: text.length,
    text: text.slice(offset, offset + 10),
    next: offset + 10 < text.length ? offset + 10 : null,
  });

  test('is assembled from its pieces', async () => {
    const percentages: number[] = [];
    expect(
      await fetchWholePart(
        async (offset) => piece(offset),
        (fraction) => percentages.push(Math.round(fraction * 100)),
      ),
    ).toEqual({ long: 'x'.repeat(25) });
    expect(percentages).toEqual([28, 56, 83, 100]);
  });

  test('fails if the server repeats a piece', async () => {
    await expect(fetchWholePart(async () => ({ ...piece(0), next: 0 }))).rejects.toThrow('the same part twice');
  });
});

test('a trace is running while its root has a parent and started recently', () => {
  const root = (parent: string | null) => ({
    root: { parent_id: parent, start: '2026-11-15T07:20:00Z' } as Summary['root'],
  });
  const now = Date.parse('2026-11-15T07:21:00Z');
  expect([isRunning(root('p'), now), isRunning(root(null), now), isRunning(root('p'), now + 3_600_000)]).toEqual([
    true,
    false,
    false,
  ]);
});
