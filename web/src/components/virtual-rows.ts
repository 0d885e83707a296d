/**
 * A long table of which only the rows near what one sees are there. The whole page scrolls, so it finds out where it
 * begins in the box that does, and whether there is room for columns; and one walks through it by keys.
 */
import { defaultRangeExtractor, useVirtualizer, type Virtualizer } from '@tanstack/react-virtual';
import { useEffect, useEffectEvent, useLayoutEffect, useState, type KeyboardEvent, type RefObject } from 'react';

/** Below this width rows are cards. */
const CARD_BREAKPOINT_PX = 768;

interface VirtualRowsOptions {
  /** What the rows stand in, and what scrolls. */
  list: RefObject<HTMLDivElement | null>;
  box: HTMLDivElement | null;
  count: number;
  /** The place of the row that has the focus. */
  active: number;
  heights: { line: number; card: number };
  keyOf?: (place: number) => string | number;
}

interface VirtualRows {
  virtual: Virtualizer<HTMLDivElement, Element>;
  /** Where the list begins in the box. */
  margin: number;
  /** Is there no room for columns? */
  card: boolean;
}

export function useVirtualRows({ list, box, count, active, heights, keyOf }: VirtualRowsOptions): VirtualRows {
  const { margin, card } = useScrollMeasure(list, box, count > 0);
  const height = card ? heights.card : heights.line;
  // oxlint-disable-next-line react/incompatible-library -- nothing of it is handed on to what is memoized
  const virtual = useVirtualizer<HTMLDivElement, Element>({
    count,
    getScrollElement: () => box,
    estimateSize: () => height,
    ...(keyOf ? { getItemKey: keyOf } : {}),
    scrollMargin: margin,
    scrollPaddingStart: 96,
    overscan: 10,
    // The row that has the focus stays, wherever one scrolls: else the keyboard would be nowhere.
    rangeExtractor: (range) => {
      const shown = defaultRangeExtractor(range);
      return shown.includes(active) || active >= count
        ? shown
        : [active, ...shown].toSorted((one, other) => one - other);
    },
  });
  const remeasure = useEffectEvent(() => virtual.measure());
  useEffect(() => remeasure(), [height]);
  return { virtual, margin, card };
}

/** Measured again when anything above changes. */
function useScrollMeasure(
  list: VirtualRowsOptions['list'],
  box: VirtualRowsOptions['box'],
  shown: boolean,
): { margin: number; card: boolean } {
  const [measured, setMeasured] = useState({ margin: 0, card: false });
  useLayoutEffect(() => {
    if (!box || !shown) return undefined;
    const measure = () => {
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const margin = Math.round(top - box.getBoundingClientRect().top + box.scrollTop);
      const card = box.clientWidth < CARD_BREAKPOINT_PX;
      setMeasured((before) => (before.margin === margin && before.card === card ? before : { margin, card }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    for (const above of box.querySelectorAll('[data-above]')) observer.observe(above);
    return () => observer.disconnect();
  }, [list, box, shown]);
  return measured;
}

const ARROW_STEPS: Record<string, (at: number) => number> = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  PageDown: (at) => at + 10,
  PageUp: (at) => at - 10,
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

/** It may be drawn only after the box has scrolled there. */
export function focusRow(list: HTMLElement | null, place: number, tries = 10): void {
  const row = list?.querySelector<HTMLElement>(`[data-place="${place}"]`);
  if (row) row.focus({ preventScroll: true });
  else if (tries > 0) requestAnimationFrame(() => focusRow(list, place, tries - 1));
}
