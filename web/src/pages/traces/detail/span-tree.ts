/**
 * Span tree of a trace. Parents are untrusted: orphans and the first span of each cycle become roots, and every span
 * occurs exactly once.
 */
import type { Schemas } from '@/api/client';
import { parseMoment } from './timeline';

export type SkeletonSpan = Schemas['SkeletonRow'];

export interface SpanNode {
  id: string;
  name: string;
  kind: string;
  status: string;
  /** Milliseconds after the start of the trace, and duration. */
  offset: number;
  duration: number;
  tokens: number | null;
  parent: SpanNode | null;
  /** Why it is a root although it names a parent. */
  note: 'orphan' | 'cycle' | null;
  children: SpanNode[];
  /** Number of descendants, and of errors among them. */
  descendantCount: number;
  errorCount: number;
}

export interface SpanTree {
  spans: ReadonlyMap<string, SpanNode>;
  top: readonly SpanNode[];
  /** All spans by start time. */
  order: readonly SpanNode[];
  /** Milliseconds from the first start to the last end. */
  duration: number;
}

/** `isComplete`: whether all spans are loaded; before that a missing parent may still come. */
export function buildSpanTree(skeleton: Iterable<SkeletonSpan>, isComplete: boolean): SpanTree {
  const spans = new Map<string, SpanNode>();
  const parentIds = new Map<SpanNode, string>();
  let startTime = Number.POSITIVE_INFINITY;
  for (const span of skeleton) {
    if (spans.has(span.span_id)) continue;
    const node = toSpanNode(span);
    startTime = Math.min(startTime, node.offset);
    spans.set(node.id, node);
    if (span.parent_id !== null) parentIds.set(node, span.parent_id);
  }
  const order = [...spans.values()];
  const top: SpanNode[] = [];
  let duration = 0;
  for (const node of order) {
    node.offset -= startTime;
    duration = Math.max(duration, node.offset + node.duration);
    const parentId = parentIds.get(node);
    const parent = parentId === undefined || parentId === node.id ? undefined : spans.get(parentId);
    if (parent) attachToParent(node, parent);
    else {
      top.push(node);
      if (isComplete && parentId !== undefined) node.note = parentId === node.id ? 'cycle' : 'orphan';
    }
  }
  countDescendants(breakCycles(order, top));
  return { spans, top, order, duration };
}

function toSpanNode({ span_id: id, name, kind, status, start, duration_ms: duration, tokens }: SkeletonSpan): SpanNode {
  return {
    id,
    name,
    kind,
    status,
    offset: parseMoment(start),
    duration,
    tokens,
    parent: null,
    note: null,
    children: [],
    descendantCount: 0,
    errorCount: 0,
  };
}

function attachToParent(node: SpanNode, parent: SpanNode): void {
  node.parent = parent;
  parent.children.push(node);
}

/** All spans, each after its parent. Spans that no root reaches form cycles, which are broken at their first span. */
function breakCycles(order: readonly SpanNode[], top: SpanNode[]): SpanNode[] {
  const reachable = collectDescendants(top);
  if (reachable.length === order.length) return reachable;
  const seenNodes = new Set(reachable);
  const orderIndex = new Map(order.map((node, index) => [node, index]));
  for (const start of order) {
    if (seenNodes.has(start)) continue;
    const first = findCycle(start).reduce((one, other) =>
      (orderIndex.get(other) ?? 0) < (orderIndex.get(one) ?? 0) ? other : one,
    );
    if (first.parent) first.parent.children = first.parent.children.filter((child) => child !== first);
    first.parent = null;
    first.note = 'cycle';
    top.push(first);
    for (const node of collectDescendants([first])) {
      seenNodes.add(node);
      reachable.push(node);
    }
  }
  return reachable;
}

function findCycle(start: SpanNode): SpanNode[] {
  const path = new Set<SpanNode>();
  let current = start;
  while (!path.has(current) && current.parent) {
    path.add(current);
    current = current.parent;
  }
  const visited = [...path];
  return visited.slice(visited.indexOf(current));
}

function collectDescendants(from: readonly SpanNode[]): SpanNode[] {
  const collected = [...from];
  for (const node of collected) for (const child of node.children) collected.push(child); // Grows during the iteration.
  return collected;
}

/** Count the descendants of each span and their errors, bottom-up. */
function countDescendants(descendants: readonly SpanNode[]): void {
  for (let index = descendants.length - 1; index >= 0; index--) {
    const node = descendants[index];
    if (!node?.parent) continue;
    node.parent.descendantCount += 1 + node.descendantCount;
    node.parent.errorCount += (node.status === 'error' ? 1 : 0) + node.errorCount;
  }
}

// Display

export interface SpanTreeRow {
  node: SpanNode;
  depth: number;
  /** Null: no children. */
  open: boolean | null;
  /** 1-based position among its siblings, and their number. */
  position: number;
  siblingCount: number;
}

/** Visible rows from top to bottom. */
export function visibleRows({ top }: Pick<SpanTree, 'top'>, isOpen: (node: SpanNode) => boolean): SpanTreeRow[] {
  const rows: SpanTreeRow[] = [];
  const stack: SpanTreeRow[] = [];
  const pushChildren = (nodes: readonly SpanNode[], depth: number) => {
    for (let index = nodes.length - 1; index >= 0; index--) {
      const node = nodes[index];
      if (node)
        stack.push({
          node,
          depth,
          open: node.children.length ? isOpen(node) : null,
          position: index + 1,
          siblingCount: nodes.length,
        });
    }
  };
  pushChildren(top, 0);
  for (let row = stack.pop(); row; row = stack.pop()) {
    rows.push(row);
    if (row.open) pushChildren(row.node.children, row.depth + 1);
  }
  return rows;
}

/** Initially open: the roots and the levels below, up to `maxRows` rows. */
export function initiallyOpen({ top }: Pick<SpanTree, 'top'>, maxRows = 300): Set<string> {
  const open = new Set<string>();
  const queue = [...top];
  const roots = new Set(top);
  let rows = top.length;
  for (const node of queue) {
    if (!node.children.length || (!roots.has(node) && rows + node.children.length > maxRows)) continue;
    open.add(node.id);
    rows += node.children.length;
    for (const child of node.children) queue.push(child);
  }
  return open;
}

/** Ancestors, nearest first. */
export function ancestors(node: SpanNode): SpanNode[] {
  const chain: SpanNode[] = [];
  for (let ancestor = node.parent; ancestor; ancestor = ancestor.parent) chain.push(ancestor);
  return chain;
}

export type TreeMove = { to: string } | { open: string } | { close: string } | null;

/** Standard tree keys. `page`: number of visible rows. */
export function keyboardMove(key: string, rows: readonly SpanTreeRow[], from: string | null, page: number): TreeMove {
  const index = rows.findIndex(({ node }) => node.id === from);
  const row = rows[index];
  const moveToIndex = (target: number): TreeMove => moveTo(rows[Math.min(Math.max(0, target), rows.length - 1)]);
  switch (key) {
    case 'ArrowDown':
      return moveToIndex(index + 1);
    case 'ArrowUp':
      return moveToIndex(index - 1);
    case 'PageDown':
      return moveToIndex(index + page);
    case 'PageUp':
      return moveToIndex(index - page);
    case 'Home':
      return moveToIndex(0);
    case 'End':
      return moveToIndex(rows.length - 1);
    case 'ArrowRight':
      if (row?.open === false) return { open: row.node.id };
      return row?.open ? moveToIndex(index + 1) : null;
    case 'ArrowLeft':
      if (row?.open) return { close: row.node.id };
      return row?.node.parent ? { to: row.node.parent.id } : null;
    case 'Enter':
    case ' ':
      return row?.open === null || !row ? null : row.open ? { close: row.node.id } : { open: row.node.id };
    default:
      return null;
  }
}

const moveTo = (row: SpanTreeRow | undefined): TreeMove => (row ? { to: row.node.id } : null);

/** Next row, wrapping around, whose name starts with the letters. */
export function typeAhead(letters: string, rows: readonly SpanTreeRow[], current: string | null): string | null {
  const searchText = letters.toLowerCase();
  const index = rows.findIndex(({ node }) => node.id === current);
  const first = letters.length > 1 ? Math.max(0, index) : index + 1; // More letters may still match the current row.
  for (let step = 0; step < rows.length; step++) {
    const row = rows[(first + step) % rows.length];
    if (row?.node.name.toLowerCase().startsWith(searchText)) return row.node.id;
  }
  return null;
}

/** Spans whose name contains the text, or whose id equals it. */
export function spansMatching({ order }: Pick<SpanTree, 'order'>, text: string): Set<string> {
  const searchText = text.trim().toLowerCase();
  if (!searchText) return new Set();
  return new Set(
    order.flatMap(({ id, name }) => (id === searchText || name.toLowerCase().includes(searchText) ? [id] : [])),
  );
}

/** All spans from top to bottom. */
export function allSpans({ top }: Pick<SpanTree, 'top'>): SpanNode[] {
  const spans: SpanNode[] = [];
  const stack = top.toReversed();
  for (let node = stack.pop(); node; node = stack.pop()) {
    spans.push(node);
    for (let index = node.children.length - 1; index >= 0; index--) {
      const child = node.children[index];
      if (child) stack.push(child);
    }
  }
  return spans;
}

/** Next match, wrapping around, or the previous one. */
export function nextMatch(
  spans: readonly SpanNode[],
  isWanted: (node: SpanNode) => boolean,
  current: string | null,
  backwards = false,
): string | null {
  const matchIndexes = spans.flatMap((node, index) => (isWanted(node) ? [index] : []));
  const currentIndex = spans.findIndex(({ id }) => id === current);
  const target = backwards
    ? (matchIndexes.findLast((index) => index < currentIndex) ?? matchIndexes.at(-1))
    : (matchIndexes.find((index) => index > currentIndex) ?? matchIndexes[0]);
  return target === undefined ? null : (spans[target]?.id ?? null);
}
