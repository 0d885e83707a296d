/**
 * Virtualized rows inside a page that scrolls as a whole. Measures where the list starts, switches to cards on narrow
 * screens, and moves by arrow keys.
 */
import { defaultRangeExtractor, useVirtualizer, type Virtualizer } from '@tanstack/react-virtual';
import { useEffect, useEffectEvent, useLayoutEffect, useState, type KeyboardEvent, type RefObject } from 'react';

/** Narrower lists show cards. */
const CARD_BREAKPOINT_PX = 768;

interface VirtualRowsOptions {
  /** The element around the rows, and the one that scrolls. */
  list: RefObject<HTMLDivElement | null>;
  box: HTMLDivElement | null;
  count: number;
  /** Index of the focused row. */
  active: number;
  heights: { line: number; card: number };
  keyOf?: (index: number) => string | number;
}

interface VirtualRows {
  virtual: Virtualizer<HTMLDivElement, Element>;
  /** Offset of the list in the scroll container. */
  margin: number;
  /** Whether rows are cards. */
  card: boolean;
}

export function useVirtualRows({ list, box, count, active, heights, keyOf }: VirtualRowsOptions): VirtualRows {
  const { margin, card } = useScrollMeasure(list, box, count > 0);
  const height = card ? heights.card : heights.line;
  // oxlint-disable-next-line react/incompatible-library -- no memoized component receives the virtualizer
  const virtual = useVirtualizer<HTMLDivElement, Element>({
    count,
    getScrollElement: () => box,
    estimateSize: () => height,
    ...(keyOf ? { getItemKey: keyOf } : {}),
    scrollMargin: margin,
    scrollPaddingStart: 96,
    overscan: 10,
    // Keep the focused row mounted, or the keyboard focus would be lost.
    rangeExtractor: (range) => {
      const indexes = defaultRangeExtractor(range);
      return indexes.includes(active) || active >= count
        ? indexes
        : [active, ...indexes].toSorted((one, other) => one - other);
    },
  });
  const remeasure = useEffectEvent(() => virtual.measure());
  useEffect(() => remeasure(), [height]);
  return { virtual, margin, card };
}

/** Offset of the list and whether rows are cards; measured again when anything above the list changes its size. */
function useScrollMeasure(
  list: VirtualRowsOptions['list'],
  box: VirtualRowsOptions['box'],
  isVisible: boolean,
): { margin: number; card: boolean } {
  const [measured, setMeasured] = useState({ margin: 0, card: false });
  useLayoutEffect(() => {
    if (!box || !isVisible) return undefined;
    const measure = () => {
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const margin = Math.round(top - box.getBoundingClientRect().top + box.scrollTop);
      const card = box.clientWidth < CARD_BREAKPOINT_PX;
      setMeasured((before) => (before.margin === margin && before.card === card ? before : { margin, card }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    for (const element of box.querySelectorAll('[data-above]')) observer.observe(element);
    return () => observer.disconnect();
  }, [list, box, isVisible]);
  return measured;
}

const ARROW_STEPS: Record<string, (index: number) => number> = {
  ArrowDown: (index) => index + 1,
  ArrowUp: (index) => index - 1,
  PageDown: (index) => index + 10,
  PageUp: (index) => index - 10,
  Home: () => 0,
  End: () => Number.MAX_SAFE_INTEGER,
};

export function handleArrowKeys(event: KeyboardEvent<HTMLElement>, active: number, move: (to: number) => void): void {
  const step = Object.hasOwn(ARROW_STEPS, event.key) ? ARROW_STEPS[event.key] : undefined;
  if (!step || event.altKey || event.ctrlKey || event.metaKey || !event.currentTarget.contains(event.target as Node))
    return;
  event.preventDefault();
  move(step(active));
}

/** Focus a row. Retries, because the row renders only after scrolling. */
export function focusRow(list: HTMLElement | null, index: number, attempts = 10): void {
  const row = list?.querySelector<HTMLElement>(`[data-place="${index}"]`);
  if (row) row.focus({ preventScroll: true });
  else if (attempts > 0) requestAnimationFrame(() => focusRow(list, index, attempts - 1));
}
