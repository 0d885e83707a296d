/** Virtual list with measured row heights, inside the element marked `data-scrolls`. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react';

/** Height above and below the visible part in which rows are rendered. */
const OVERSCAN_PX = 600;

interface Props {
  /** Row ids in order. */
  ids: readonly string[];
  /** Estimated height of rows that were not measured. */
  height: number;
  className: string;
  children: (index: number) => ReactNode;
}

export function VirtualList({ ids, height, className, children }: Props): ReactNode {
  const container = useRef<HTMLDivElement>(null);
  const measuredHeights = useRef(new Map<string, number>());
  const [range, setRange] = useState<VisibleRange>({
    from: 0,
    to: Math.min(ids.length, 8),
    above: 0,
    below: Math.max(0, ids.length - 8) * height,
  });

  const measure = useCallback((): void => {
    const list = container.current;
    const box = list?.closest<HTMLElement>('[data-scrolls]');
    if (!list || !box) return;
    const top = box.getBoundingClientRect().top - list.getBoundingClientRect().top;
    const next = visibleRange(
      ids.map((id) => measuredHeights.current.get(id) ?? height),
      top - OVERSCAN_PX,
      top + box.clientHeight + OVERSCAN_PX,
    );
    setRange((old) =>
      old.from === next.from && old.to === next.to && old.above === next.above && old.below === next.below ? old : next,
    );
  }, [ids, height]);

  useLayoutEffect(measure, [measure]);
  useEffect(() => {
    const box = container.current?.closest<HTMLElement>('[data-scrolls]');
    if (!box) return undefined;
    const observer = new ResizeObserver(measure);
    box.addEventListener('scroll', measure, { passive: true });
    observer.observe(box);
    return () => {
      box.removeEventListener('scroll', measure);
      observer.disconnect();
    };
  }, [measure]);

  const handleHeight = useCallback(
    (id: string, newHeight: number): void => {
      if (Math.abs((measuredHeights.current.get(id) ?? height) - newHeight) < 1) return;
      measuredHeights.current.set(id, newHeight);
      measure();
    },
    [measure, height],
  );
  return (
    <div ref={container} role="rowgroup" className="flow-root">
      <div style={{ height: range.above }} />
      {ids.slice(range.from, range.to).map((id, index) => (
        <MeasuredRow key={id} id={id} className={className} onHeight={handleHeight}>
          {children(range.from + index)}
        </MeasuredRow>
      ))}
      <div style={{ height: range.below }} />
    </div>
  );
}

interface MeasuredRowProps {
  id: string;
  className: string;
  onHeight: (id: string, height: number) => void;
  children: ReactNode;
}

function MeasuredRow({ id, className, onHeight, children }: MeasuredRowProps): ReactNode {
  const container = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    // The outer element includes the margins of the row in the measurement.
    const observer = new ResizeObserver(() => onHeight(id, element.getBoundingClientRect().height));
    observer.observe(element);
    return () => observer.disconnect();
  }, [id, onHeight]);
  return (
    <div ref={container} className="flow-root" data-row={id}>
      <div className={className}>{children}</div>
    </div>
  );
}

export interface VisibleRange {
  /** First row to render, and the one after the last. */
  from: number;
  to: number;
  /** Space before and after the rendered rows. */
  above: number;
  below: number;
}

/** Rows between `top` and `bottom`, relative to the first row. */
export function visibleRange(heights: readonly number[], top: number, bottom: number): VisibleRange {
  let offset = 0;
  let from = 0;
  while (from < heights.length && offset + (heights[from] ?? 0) <= top) {
    offset += heights[from] ?? 0;
    from += 1;
  }
  const above = offset;
  let to = from;
  while (to < heights.length && offset < bottom) {
    offset += heights[to] ?? 0;
    to += 1;
  }
  let below = 0;
  for (let index = to; index < heights.length; index++) below += heights[index] ?? 0;
  return { from, to, above, below };
}
