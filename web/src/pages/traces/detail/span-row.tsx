/** Row of a span: tree at the left, timeline at the right. */
import { ChevronRight } from 'lucide-react';
import { memo, type MouseEvent, type ReactNode } from 'react';
import { cn } from '@/lib/cn';
import { formatCompactNumber, pluralize } from '@/lib/format';
import { safeExact } from '@/lib/safe-text';
import { kindColour, KindIcon, StatusIcon } from '@/pages/traces/span-kind';
import type { SpanTreeRow, SpanNode } from './span-tree';
import { formatMilliseconds, barPosition, type TimeRange } from './timeline';

export const ROW_HEIGHT = 28;
/** Deeper rows are not indented further. */
const MAX_INDENT = 16;
const INDENT_PX = 14;

export type SpanColumns = 'tree' | 'timeline' | 'both';

interface Props {
  id: string;
  row: SpanTreeRow;
  top: number;
  selected: boolean;
  isMatch: boolean;
  columns: SpanColumns;
  range: TimeRange;
  onSelect: (id: string) => void;
  onToggle: (row: SpanTreeRow) => void;
  onFocus: (node: SpanNode) => void;
}

export const SpanRow = memo(function SpanRow({
  id,
  row,
  top,
  selected,
  isMatch,
  columns,
  range,
  onSelect,
  onToggle,
  onFocus,
}: Props): ReactNode {
  const { node, depth, open, position, siblingCount } = row;
  return (
    // The tree has the focus and aria-activedescendant, because rows are virtual.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
    <div
      id={id}
      role="treeitem"
      aria-level={depth + 1}
      aria-setsize={siblingCount}
      aria-posinset={position}
      aria-selected={selected}
      {...(open === null ? {} : { 'aria-expanded': open })}
      onClick={() => onSelect(node.id)}
      style={{ height: ROW_HEIGHT, transform: `translateY(${top}px)` }}
      className={cn(
        'absolute inset-x-0 top-0 flex cursor-pointer items-center border-b border-line/50 outline-accent',
        selected
          ? 'bg-accent-soft -outline-offset-2 group-focus-visible/tree:outline-2'
          : node.status === 'error'
            ? 'bg-bad-soft/50 hover:bg-bad-soft'
            : 'hover:bg-sunken',
      )}
    >
      <Name row={row} isMatch={isMatch} columns={columns} onToggle={onToggle} />
      {columns !== 'tree' && <Bar node={node} range={range} showDuration={columns === 'timeline'} onFocus={onFocus} />}
    </div>
  );
});

function Name({ row, isMatch, columns, onToggle }: Pick<Props, 'row' | 'isMatch' | 'columns' | 'onToggle'>): ReactNode {
  const { node, depth, open } = row;
  const toggle = (event: MouseEvent) => {
    event.stopPropagation();
    onToggle(row);
  };
  return (
    <div
      className={cn(
        'flex h-full min-w-0 items-center gap-1.5 pr-2',
        columns === 'both'
          ? 'w-[54%] shrink-0 border-r'
          : columns === 'timeline'
            ? 'w-[38%] shrink-0 border-r'
            : 'grow',
      )}
      style={{ paddingLeft: 6 + Math.min(depth, MAX_INDENT) * (columns === 'timeline' ? 6 : INDENT_PX) }}
    >
      {open === null ? (
        <span className="w-4 shrink-0" />
      ) : (
        // Arrow keys do the same.
        <button
          type="button"
          tabIndex={-1}
          aria-hidden
          onClick={toggle}
          className="flex size-4 shrink-0 items-center justify-center rounded-sm hover:bg-line"
        >
          <ChevronRight className={cn('size-3.5 text-faint transition-transform', open && 'rotate-90')} />
        </button>
      )}
      <KindIcon kind={node.kind} />
      <span
        className={cn(
          'min-w-0 grow truncate text-[13px]',
          node.status === 'error' && 'text-bad',
          isMatch && 'rounded-sm bg-warn-soft font-medium',
        )}
        title={safeExact(node.name).slice(0, 300)}
      >
        <bdi>{safeExact(node.name).slice(0, 200) || 'unnamed'}</bdi>
      </span>
      {node.note && <NoteBadge note={node.note} />}
      {open === false && <HiddenChildren node={node} />}
      <StatusIcon status={node.status} />
      {columns !== 'timeline' && (
        <>
          {node.tokens ? (
            <span
              className="shrink-0 text-xs text-faint tabular-nums"
              title={`${node.tokens.toLocaleString('en')} tokens`}
            >
              {formatCompactNumber(node.tokens)} tok
            </span>
          ) : null}
          <span className="w-15 shrink-0 text-right text-xs text-muted tabular-nums">
            {formatMilliseconds(node.duration)}
          </span>
        </>
      )}
    </div>
  );
}

const NOTES = { orphan: 'The parent span is missing', cycle: 'The span is its own ancestor' };

const NoteBadge = ({ note }: { note: 'orphan' | 'cycle' }): ReactNode => (
  <span title={NOTES[note]} className="shrink-0 rounded-full bg-warn-soft px-1.5 text-[11px] text-warn">
    {note}
  </span>
);

/** Number of spans and errors that a closed row hides. */
const HiddenChildren = ({ node }: { node: SpanNode }): ReactNode => (
  <>
    <span
      className="shrink-0 rounded-full bg-sunken px-1.5 text-[11px] text-muted tabular-nums"
      title={pluralize(node.descendantCount, 'descendant span')}
    >
      {formatCompactNumber(node.descendantCount)}
    </span>
    {node.errorCount > 0 && (
      <span
        className="shrink-0 rounded-full bg-bad-soft px-1.5 text-[11px] text-bad tabular-nums"
        title={`${pluralize(node.errorCount, 'descendant span')} failed`}
      >
        {formatCompactNumber(node.errorCount)} failed
      </span>
    )}
  </>
);

function Bar({
  node,
  range,
  showDuration,
  onFocus,
}: Pick<Props, 'range' | 'onFocus'> & { node: SpanNode; showDuration: boolean }): ReactNode {
  const position = barPosition(node.offset, node.duration, range);
  const colour = `var(${kindColour(node.kind, node.status)})`;
  if (typeof position === 'string') {
    return (
      <span className={cn('min-w-0 grow px-1 text-xs text-faint', position === 'after' && 'text-right')} aria-hidden>
        {position === 'before' ? '‹' : '›'}
      </span>
    );
  }
  const isNearEnd = position.left + position.width > 70;
  return (
    <span
      className="relative mx-1.5 h-full min-w-0 grow overflow-hidden"
      onDoubleClick={() => onFocus(node)}
      title={
        `Starts at +${formatMilliseconds(node.offset)}, takes ${formatMilliseconds(node.duration)}. ` +
        'Double-click to zoom in.'
      }
    >
      <span
        className="absolute top-2 h-3 min-w-0.5 rounded-xs opacity-85"
        style={{ left: `min(${position.left}%, calc(100% - 2px))`, width: `${position.width}%`, background: colour }}
      />
      {showDuration && (
        <span
          className={cn(
            'absolute top-1 px-1 text-[11px]/5 tabular-nums',
            position.width > 70 ? 'text-canvas' : 'text-muted',
          )}
          style={
            position.width > 70
              ? { right: `${100 - position.left - position.width}%` }
              : isNearEnd
                ? { right: `${100 - position.left}%` }
                : { left: `${position.left + position.width}%` }
          }
        >
          {formatMilliseconds(node.duration)}
        </span>
      )}
    </span>
  );
}
