import { describe, expect, it } from 'vitest';
import { findEditTarget, textAt, withText, type Path, parseCodeEdit, type CodeEdit } from './code-edit';

function edit(old: string, now: string | null, input?: string): CodeEdit {
  const read = parseCodeEdit({ old, new: now, input });
  if (!read) throw new Error('It is one.');
  return read;
}

/** Where and how, as one line. */
function stands(one: CodeEdit, inputs: object, last?: Path): string | null {
  const target = findEditTarget(one, inputs as Record<string, unknown>, last);
  return target && `${target.state} /${target.path.join('/')}`;
}

describe('a change whose place the workflow names', () => {
  const codeEdit = edit('a', 'b', '/context/code');

  it('is open while the old code is there, applied when the new one is, and changed otherwise', () => {
    expect(['a', 'b', 'c'].map((code) => stands(codeEdit, { context: { code } }))).toEqual([
      'ready /context/code',
      'applied /context/code',
      'changed /context/code',
    ]);
  });

  it('can be applied where nothing is: nothing is lost', () => {
    expect(
      [{}, { context: null }, { context: {} }, { context: { code: null } }, { context: { code: ' \n' } }].map(
        (inputs) => stands(codeEdit, inputs),
      ),
    ).toEqual(Array(5).fill('ready /context/code'));
    expect(stands(edit('', 'b', '/context/code'), {})).toBe('ready /context/code');
  });

  it('belongs there even where the old code stands elsewhere as well', () => {
    expect(stands(codeEdit, { context: { code: 'c' }, log: 'a' })).toBe('changed /context/code');
  });

  it('is looked for where no text can be in that place', () => {
    expect(
      [{ context: 'a' }, { context: { code: 7 }, other: 'a' }, { context: ['x'], list: ['z', 'a'] }].map((inputs) =>
        stands(codeEdit, inputs),
      ),
    ).toEqual(['ready /context', 'ready /other', 'ready /list/1']);
    expect(stands(edit('a', 'b', '/messages/0'), { messages: ['a'] })).toBeNull();
    expect(stands(edit('a', 'b', '/x'.repeat(17)), {})).toBeNull();
    expect(
      ['/list/0', '/list/2', '/list/-', '/list/00'].map((input) => stands(edit('a', 'b', input), { list: ['z', 'c'] })),
    ).toEqual(['changed /list/0', null, null, null]);
  });
});

describe('a change whose place nobody names', () => {
  it('is where the old code stands, or the new one, at any depth', () => {
    expect(stands(edit('a', 'b'), { x: 1, deep: [{ code: 'a' }] })).toBe('ready /deep/0/code');
    expect(stands(edit('a', 'b'), { deep: [{ code: 'b' }] })).toBe('applied /deep/0/code');
  });

  it('is nowhere when there are several places, or none, or only the conversation', () => {
    expect(
      [{ x: 'a', y: 'a' }, {}, { messages: [{ content: 'a' }] }].map((inputs) => stands(edit('a', 'b'), inputs)),
    ).toEqual([null, null, null]);
    expect(stands(edit('', 'b'), { x: '' })).toBeNull();
  });

  it('is still where it was last seen when somebody wrote there', () => {
    expect(stands(edit('a', 'b'), { code: 'c' }, ['code'])).toBe('changed /code');
  });

  it('is looked for in so much and no more', () => {
    const deep = Array.from({ length: 100 }).reduce<unknown>((inner) => ({ inner }), 'a');
    expect(stands(edit('a', 'b'), { deep, many: Array.from({ length: 20_000 }, () => 'x') })).toBeNull();
  });
});

it('a change that changes nothing, or could not be made, is nowhere', () => {
  expect([edit('a', 'a', '/code'), edit('a', null, '/code')].map((one) => stands(one, { code: 'a' }))).toEqual([
    null,
    null,
  ]);
});

describe('a text is put', () => {
  it('in its place, and all else stays as it was', () => {
    const inputs = { context: { code: 'a', list: ['x', { y: 'a' }] }, flag: true };
    expect(withText(inputs, ['context', 'list', '1', 'y'], 'b')).toEqual({
      context: { code: 'a', list: ['x', { y: 'b' }] },
      flag: true,
    });
    expect(inputs.context.list[1]).toEqual({ y: 'a' });
  });

  it('where there was nothing, making what leads there', () => {
    expect(withText({ flag: true }, ['context', 'code'], 'b')).toEqual({ flag: true, context: { code: 'b' } });
  });

  it('under any name, and no name is special', () => {
    const result = withText({}, ['__proto__', 'constructor'], 'b');
    expect([
      textAt(result, ['__proto__', 'constructor']),
      Object.getPrototypeOf(result),
      textAt({}, ['constructor', 'name']),
    ]).toEqual(['b', Object.prototype, null]);
  });
});
