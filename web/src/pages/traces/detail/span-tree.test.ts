import { describe, expect, test } from 'vitest';
import {
  ancestors,
  buildSpanTree,
  initiallyOpen,
  visibleRows,
  type SkeletonSpan,
  type SpanTree,
  allSpans,
  spansMatching,
  nextMatch,
  keyboardMove,
  typeAhead,
} from './span-tree';

const bone = (id: string, parent: string | null = null, at = 0, more: Partial<SkeletonSpan> = {}): SkeletonSpan => ({
  span_id: id,
  parent_id: parent,
  name: `step ${id}`,
  kind: 'task',
  status: 'ok',
  tokens: null,
  duration_ms: 10,
  start: new Date(Date.UTC(2026, 10, 15) + at).toISOString(),
  ...more,
});
const ALL = () => true;
const shape = (forest: SpanTree, isOpen = ALL as (twig: { id: string }) => boolean) =>
  visibleRows(forest, isOpen).map(({ node: twig, depth }) => `${'.'.repeat(depth)}${twig.id}`);
const family = () =>
  buildSpanTree([bone('a'), bone('b', 'a', 5), bone('c', 'b', 6, { status: 'error' }), bone('d', 'a', 90)], true);

describe('the spans of a trace', () => {
  test('hang below their parents, along the time', () => {
    const forest = family();
    expect(shape(forest)).toEqual(['a', '.b', '..c', '.d']);
    expect([forest.duration, forest.spans.get('d')?.at]).toEqual([100, 90]);
  });

  test('are counted, and so is what failed among them', () => {
    const { spans } = family();
    expect(['a', 'b', 'c'].map((id) => [spans.get(id)?.below, spans.get(id)?.bad])).toEqual([
      [3, 1],
      [1, 1],
      [0, 0],
    ]);
  });

  test('stand at the top when their parent is not there, and say so once all have come', () => {
    const bones = [bone('a'), bone('x', 'gone', 1)];
    expect(shape(buildSpanTree(bones, true))).toEqual(['a', 'x']);
    expect([true, false].map((whole) => buildSpanTree(bones, whole).spans.get('x')?.note)).toEqual(['orphan', null]);
  });

  test('that are each other’s parents are all there once, the first of them at the top', () => {
    const forest = buildSpanTree(
      [bone('a'), bone('x', 'z', 1), bone('y', 'x', 2), bone('z', 'y', 3), bone('w', 'y', 4), bone('self', 'self', 5)],
      true,
    );
    expect(shape(forest)).toEqual(['a', 'self', 'x', '.y', '..z', '..w']);
    expect(['x', 'self', 'y'].map((id) => forest.spans.get(id)?.note)).toEqual(['cycle', 'cycle', null]);
    expect(forest.spans.get('x')?.below).toBe(3);
  });

  test('that come twice are there once', () => {
    expect(shape(buildSpanTree([bone('a'), bone('a', null, 9)], true))).toEqual(['a']);
  });

  test('may be thirty thousand, side by side or each in the other', () => {
    const many = Array.from({ length: 30_000 }, (_, index) => bone(`s${index}`, index ? 's0' : null, index));
    const deep = Array.from({ length: 30_000 }, (_, index) => bone(`s${index}`, index ? `s${index - 1}` : null, index));
    expect([many, deep].map((bones) => visibleRows(buildSpanTree(bones, true), ALL).length)).toEqual([30_000, 30_000]);
    expect(ancestors(buildSpanTree(deep, true).spans.get('s29999') ?? expect.fail()).length).toBe(29_999);
  });

  test('none of them is no tree', () => {
    expect(buildSpanTree([], true)).toEqual({ spans: new Map(), top: [], order: [], duration: 0 });
  });
});

describe('what is open at first', () => {
  test('is what is near the top, as long as it is not too much', () => {
    expect([...initiallyOpen(family())]).toEqual(['a', 'b']);
    expect([...initiallyOpen(family(), 3)]).toEqual(['a']);
  });

  test('hides what hangs below a closed one', () => {
    expect(shape(family(), ({ id }) => id === 'a')).toEqual(['a', '.b', '.d']);
  });
});

describe('keys', () => {
  const rows = visibleRows(family(), ALL);
  const closed = visibleRows(family(), ({ id }) => id === 'a');

  test('go up and down, and no farther than there are rows', () => {
    expect(
      ['ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown', 'PageUp'].map((key) => keyboardMove(key, rows, 'b', 2)),
    ).toEqual([{ to: 'c' }, { to: 'a' }, { to: 'a' }, { to: 'd' }, { to: 'd' }, { to: 'a' }]);
    expect([keyboardMove('ArrowDown', rows, 'd', 2), keyboardMove('ArrowDown', rows, null, 2)]).toEqual([
      { to: 'd' },
      { to: 'a' },
    ]);
    expect(keyboardMove('ArrowDown', [], null, 2)).toBe(null);
  });

  test('open what is closed and go in, close what is open and go out', () => {
    expect([
      keyboardMove('ArrowRight', closed, 'b', 1),
      keyboardMove('ArrowRight', rows, 'b', 1),
      keyboardMove('ArrowRight', rows, 'c', 1),
    ]).toEqual([{ open: 'b' }, { to: 'c' }, null]);
    expect([
      keyboardMove('ArrowLeft', rows, 'b', 1),
      keyboardMove('ArrowLeft', rows, 'c', 1),
      keyboardMove('ArrowLeft', closed, 'a', 1),
    ]).toEqual([{ close: 'b' }, { to: 'b' }, { close: 'a' }]);
    expect([
      keyboardMove('Enter', rows, 'b', 1),
      keyboardMove(' ', closed, 'b', 1),
      keyboardMove('Enter', rows, 'c', 1),
      keyboardMove('x', rows, 'a', 1),
    ]).toEqual([{ close: 'b' }, { open: 'b' }, null, null]);
  });

  test('find by letters, after where one is and round', () => {
    expect([
      typeAhead('s', rows, 'b'),
      typeAhead('step d', rows, 'a'),
      typeAhead('s', rows, 'd'),
      typeAhead('z', rows, 'a'),
    ]).toEqual(['c', 'd', 'a', null]);
  });
});

describe('looking for spans', () => {
  test('goes by name, whatever the letters’ size, or by id', () => {
    expect([...spansMatching(family(), 'STEP B')]).toEqual(['b']);
    expect([...spansMatching(family(), 'c')]).toEqual(['c']);
    expect(spansMatching(family(), ' ').size).toBe(0);
  });

  test('goes through the whole tree, both ways and round', () => {
    const all = allSpans(family());
    const wanted = ({ id }: { id: string }) => id === 'b' || id === 'd';
    expect(all.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd']);
    expect([
      nextMatch(all, wanted, 'b'),
      nextMatch(all, wanted, 'd'),
      nextMatch(all, wanted, 'd', true),
      nextMatch(all, wanted, null),
    ]).toEqual(['d', 'b', 'b', 'b']);
    expect(nextMatch(all, () => false, 'a')).toBe(null);
  });
});
