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

const span = (id: string, parent: string | null = null, at = 0, more: Partial<SkeletonSpan> = {}): SkeletonSpan => ({
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
const outline = (tree: SpanTree, isOpen = ALL as (node: { id: string }) => boolean) =>
  visibleRows(tree, isOpen).map(({ node, depth }) => `${'.'.repeat(depth)}${node.id}`);
const familyTree = () =>
  buildSpanTree([span('a'), span('b', 'a', 5), span('c', 'b', 6, { status: 'error' }), span('d', 'a', 90)], true);

describe('the spans of a trace', () => {
  test('are nested below their parents, in order of time', () => {
    const tree = familyTree();
    expect(outline(tree)).toEqual(['a', '.b', '..c', '.d']);
    expect([tree.duration, tree.spans.get('d')?.offset]).toEqual([100, 90]);
  });

  test('count their descendants and the failed ones among them', () => {
    const { spans } = familyTree();
    expect(['a', 'b', 'c'].map((id) => [spans.get(id)?.descendantCount, spans.get(id)?.errorCount])).toEqual([
      [3, 1],
      [1, 1],
      [0, 0],
    ]);
  });

  test('are at the top if their parent is missing, and marked as orphans once all are loaded', () => {
    const spans = [span('a'), span('x', 'gone', 1)];
    expect(outline(buildSpanTree(spans, true))).toEqual(['a', 'x']);
    expect([true, false].map((isComplete) => buildSpanTree(spans, isComplete).spans.get('x')?.note)).toEqual([
      'orphan',
      null,
    ]);
  });

  test('in a cycle are all present once, the first of them at the top', () => {
    const tree = buildSpanTree(
      [span('a'), span('x', 'z', 1), span('y', 'x', 2), span('z', 'y', 3), span('w', 'y', 4), span('self', 'self', 5)],
      true,
    );
    expect(outline(tree)).toEqual(['a', 'self', 'x', '.y', '..z', '..w']);
    expect(['x', 'self', 'y'].map((id) => tree.spans.get(id)?.note)).toEqual(['cycle', 'cycle', null]);
    expect(tree.spans.get('x')?.descendantCount).toBe(3);
  });

  test('with the same id are present once', () => {
    expect(outline(buildSpanTree([span('a'), span('a', null, 9)], true))).toEqual(['a']);
  });

  test('can be 30,000, as siblings or nested', () => {
    const wideTrace = Array.from({ length: 30_000 }, (_, index) => span(`s${index}`, index ? 's0' : null, index));
    const deep = Array.from({ length: 30_000 }, (_, index) => span(`s${index}`, index ? `s${index - 1}` : null, index));
    expect([wideTrace, deep].map((spans) => visibleRows(buildSpanTree(spans, true), ALL).length)).toEqual([
      30_000, 30_000,
    ]);
    expect(ancestors(buildSpanTree(deep, true).spans.get('s29999') ?? expect.fail()).length).toBe(29_999);
  });

  test('form an empty tree if there are none', () => {
    expect(buildSpanTree([], true)).toEqual({ spans: new Map(), top: [], order: [], duration: 0 });
  });
});

describe('the outline', () => {
  test('initially expands spans near the top, up to a maximum number of rows', () => {
    expect([...initiallyOpen(familyTree())]).toEqual(['a', 'b']);
    expect([...initiallyOpen(familyTree(), 3)]).toEqual(['a']);
  });

  test('hides the spans below a collapsed one', () => {
    expect(outline(familyTree(), ({ id }) => id === 'a')).toEqual(['a', '.b', '.d']);
  });
});

describe('keyboard navigation', () => {
  const rows = visibleRows(familyTree(), ALL);
  const closed = visibleRows(familyTree(), ({ id }) => id === 'a');

  test('moves up and down within the rows', () => {
    expect(
      ['ArrowDown', 'ArrowUp', 'Home', 'End', 'PageDown', 'PageUp'].map((key) => keyboardMove(key, rows, 'b', 2)),
    ).toEqual([{ to: 'c' }, { to: 'a' }, { to: 'a' }, { to: 'd' }, { to: 'd' }, { to: 'a' }]);
    expect([keyboardMove('ArrowDown', rows, 'd', 2), keyboardMove('ArrowDown', rows, null, 2)]).toEqual([
      { to: 'd' },
      { to: 'a' },
    ]);
    expect(keyboardMove('ArrowDown', [], null, 2)).toBe(null);
  });

  test('expands and collapses spans, or moves to a child or the parent', () => {
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

  test('finds a row by its first letters after the current one, and wraps around', () => {
    expect([
      typeAhead('s', rows, 'b'),
      typeAhead('step d', rows, 'a'),
      typeAhead('s', rows, 'd'),
      typeAhead('z', rows, 'a'),
    ]).toEqual(['c', 'd', 'a', null]);
  });
});

describe('searching for spans', () => {
  test('matches the name, ignoring case, or the id', () => {
    expect([...spansMatching(familyTree(), 'STEP B')]).toEqual(['b']);
    expect([...spansMatching(familyTree(), 'c')]).toEqual(['c']);
    expect(spansMatching(familyTree(), ' ').size).toBe(0);
  });

  test('moves through the whole tree in both directions and wraps around', () => {
    const all = allSpans(familyTree());
    const isWanted = ({ id }: { id: string }) => id === 'b' || id === 'd';
    expect(all.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd']);
    expect([
      nextMatch(all, isWanted, 'b'),
      nextMatch(all, isWanted, 'd'),
      nextMatch(all, isWanted, 'd', true),
      nextMatch(all, isWanted, null),
    ]).toEqual(['d', 'b', 'b', 'b']);
    expect(nextMatch(all, () => false, 'a')).toBe(null);
  });
});
