import { describe, expect, it } from 'vitest';
import { findEditTarget, textAt, withText, type Path, parseCodeEdit, type CodeEdit } from './code-edit';

function edit(old: string, now: string | null, input?: string): CodeEdit {
  const parsed = parseCodeEdit({ old, new: now, input });
  if (!parsed) throw new Error('It is one.');
  return parsed;
}

/** State and path of the edit's target, as one line. */
function locate(codeEdit: CodeEdit, inputs: object, last?: Path): string | null {
  const target = findEditTarget(codeEdit, inputs as Record<string, unknown>, last);
  return target && `${target.state} /${target.path.join('/')}`;
}

describe('an edit with a named target', () => {
  const codeEdit = edit('a', 'b', '/context/code');

  it('is ready if the target has the old code, applied if it has the new code, and changed otherwise', () => {
    expect(['a', 'b', 'c'].map((code) => locate(codeEdit, { context: { code } }))).toEqual([
      'ready /context/code',
      'applied /context/code',
      'changed /context/code',
    ]);
  });

  it('is ready if the target is missing or blank', () => {
    expect(
      [{}, { context: null }, { context: {} }, { context: { code: null } }, { context: { code: ' \n' } }].map(
        (inputs) => locate(codeEdit, inputs),
      ),
    ).toEqual(Array(5).fill('ready /context/code'));
    expect(locate(edit('', 'b', '/context/code'), {})).toBe('ready /context/code');
  });

  it('keeps its target even if another input has the old code', () => {
    expect(locate(codeEdit, { context: { code: 'c' }, log: 'a' })).toBe('changed /context/code');
  });

  it('is searched for in the inputs if the named target cannot hold text', () => {
    expect(
      [{ context: 'a' }, { context: { code: 7 }, other: 'a' }, { context: ['x'], list: ['z', 'a'] }].map((inputs) =>
        locate(codeEdit, inputs),
      ),
    ).toEqual(['ready /context', 'ready /other', 'ready /list/1']);
    expect(locate(edit('a', 'b', '/messages/0'), { messages: ['a'] })).toBeNull();
    expect(locate(edit('a', 'b', '/x'.repeat(17)), {})).toBeNull();
    expect(
      ['/list/0', '/list/2', '/list/-', '/list/00'].map((input) => locate(edit('a', 'b', input), { list: ['z', 'c'] })),
    ).toEqual(['changed /list/0', null, null, null]);
  });
});

describe('an edit without a named target', () => {
  it('applies to the input with the old or the new code, at any depth', () => {
    expect(locate(edit('a', 'b'), { x: 1, deep: [{ code: 'a' }] })).toBe('ready /deep/0/code');
    expect(locate(edit('a', 'b'), { deep: [{ code: 'b' }] })).toBe('applied /deep/0/code');
  });

  it('has no target if several inputs match, none does, or only messages do', () => {
    expect(
      [{ x: 'a', y: 'a' }, {}, { messages: [{ content: 'a' }] }].map((inputs) => locate(edit('a', 'b'), inputs)),
    ).toEqual([null, null, null]);
    expect(locate(edit('', 'b'), { x: '' })).toBeNull();
  });

  it('keeps its last target after the text there has changed', () => {
    expect(locate(edit('a', 'b'), { code: 'c' }, ['code'])).toBe('changed /code');
  });

  it('is not searched for below the maximum depth', () => {
    const nested = (depth: number) => Array.from({ length: depth }).reduce<unknown>((inner) => ({ inner }), 'a');
    expect(locate(edit('a', 'b'), { deep: nested(15) })).toBe(`ready /deep${'/inner'.repeat(15)}`);
    expect(locate(edit('a', 'b'), { deep: nested(16) })).toBeNull();
  });

  it('is not searched for beyond the maximum number of values', () => {
    const inputs = (count: number) => ({ many: Array.from({ length: count }, () => 'x'), code: 'a' });
    expect(locate(edit('a', 'b'), inputs(9000))).toBe('ready /code');
    expect(locate(edit('a', 'b'), inputs(11_000))).toBeNull();
  });
});

it('an edit without effect or without new code has no target', () => {
  expect([edit('a', 'a', '/code'), edit('a', null, '/code')].map((one) => locate(one, { code: 'a' }))).toEqual([
    null,
    null,
  ]);
});

describe('setting a text', () => {
  it('replaces it in a copy and keeps all other values', () => {
    const inputs = { context: { code: 'a', list: ['x', { y: 'a' }] }, flag: true };
    expect(withText(inputs, ['context', 'list', '1', 'y'], 'b')).toEqual({
      context: { code: 'a', list: ['x', { y: 'b' }] },
      flag: true,
    });
    expect(inputs.context.list[1]).toEqual({ y: 'a' });
  });

  it('creates missing objects on the path', () => {
    expect(withText({ flag: true }, ['context', 'code'], 'b')).toEqual({ flag: true, context: { code: 'b' } });
  });

  it('treats names such as __proto__ like any others', () => {
    const result = withText({}, ['__proto__', 'constructor'], 'b');
    expect([
      textAt(result, ['__proto__', 'constructor']),
      Object.getPrototypeOf(result),
      textAt({}, ['constructor', 'name']),
    ]).toEqual(['b', Object.prototype, null]);
  });
});
