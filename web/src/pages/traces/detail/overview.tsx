/** Overview of a trace on a canvas, a line for each span. Dragging selects a range. */
import { useEffect, useRef, useState, type PointerEvent, type ReactNode } from 'react';
import { kindColour } from '@/pages/traces/span-kind';
import type { SpanTree } from './span-tree';
import { isFullRange, clampRange, type TimeRange } from './timeline';

const HEIGHT = 44;

interface Props {
  tree: SpanTree;
  range: TimeRange;
  onRange: (range: TimeRange) => void;
}

export function Overview({ tree, range, onRange }: Props): ReactNode {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [dragRange, setDragRange] = useState<TimeRange | null>(null);
  const { duration } = tree;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const redraw = () => drawSpans(element, tree);
    const resizeObserver = new ResizeObserver(redraw);
    const themeObserver = new MutationObserver(redraw);
    resizeObserver.observe(element);
    themeObserver.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      resizeObserver.disconnect();
      themeObserver.disconnect();
    };
  }, [tree]);

  const timeAt = (event: PointerEvent<HTMLElement>): number => {
    const box = event.currentTarget.getBoundingClientRect();
    return ((event.clientX - box.left) / (box.width || 1)) * duration;
  };
  const startDrag = (event: PointerEvent<HTMLElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    const time = timeAt(event);
    setDragRange({ from: time, to: time });
  };
  const endDrag = () => {
    // A click selects no range.
    if (dragRange && Math.abs(dragRange.to - dragRange.from) > duration / 200) onRange(clampRange(dragRange, duration));
    setDragRange(null);
  };
  const visibleRange = dragRange ? clampRange(dragRange, duration) : isFullRange(range, duration) ? null : range;
  return (
    // For pointers; the buttons next to it do the same for the keyboard.
    <div
      role="img"
      aria-label="All spans over time"
      className="relative min-w-0 grow touch-pan-y cursor-crosshair select-none"
      style={{ height: HEIGHT }}
      onPointerDown={startDrag}
      onPointerMove={(event) => dragRange && setDragRange({ ...dragRange, to: timeAt(event) })}
      onPointerUp={endDrag}
      onPointerCancel={() => setDragRange(null)}
      onDoubleClick={() => onRange({ from: 0, to: duration })}
    >
      <canvas ref={canvas} className="absolute inset-0 size-full" />
      {visibleRange && duration > 0 && (
        <>
          <span
            className="absolute inset-y-0 left-0 bg-canvas/75"
            style={{ width: `${(visibleRange.from / duration) * 100}%` }}
          />
          <span
            className="absolute inset-y-0 right-0 bg-canvas/75"
            style={{ width: `${(1 - visibleRange.to / duration) * 100}%` }}
          />
          <span
            className="absolute inset-y-0 border-x border-accent"
            style={{
              left: `${(visibleRange.from / duration) * 100}%`,
              width: `${((visibleRange.to - visibleRange.from) / duration) * 100}%`,
            }}
          />
        </>
      )}
    </div>
  );
}

/** Draw the spans, errors last so that they are on top. */
function drawSpans(canvas: HTMLCanvasElement, { order, duration }: SpanTree): void {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext('2d');
  if (!context || !order.length) return;
  context.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  let lastColour = '';
  const lineHeight = Math.max(1, Math.min(6, (height - 4) / order.length - 0.5));
  const draw = (isError: boolean) => {
    for (const [index, { offset, duration: spanDuration, kind, status }] of order.entries()) {
      if ((status === 'error') !== isError) continue;
      const colour = kindColour(kind, status);
      if (colour !== lastColour) context.fillStyle = style.getPropertyValue(colour);
      lastColour = colour;
      const y = 2 + (index * (height - 4 - lineHeight)) / Math.max(1, order.length - 1);
      context.fillRect(
        (offset / (duration || 1)) * (width - 2),
        y,
        Math.max(1.5, (spanDuration / (duration || 1)) * width),
        lineHeight,
      );
    }
  };
  draw(false);
  draw(true);
}
