/** One row of the grid: its number, and those of its cells that are near what one sees. */
import type { VirtualItem } from '@tanstack/react-virtual';
import { useMemo, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { formatSize } from '@/lib/format';
import { CellView } from './cell-view';
import { cellOf, type Edits, type ShownColumn } from './edits';
import { type Entry, cutOf, dataOf, isChanged } from './entries';
import { GUTTER, toggled, type Place, type Selection } from './grid-shape';

interface Props {
  entry: Entry;
  place: number;
  top: number;
  height: number;
  columns: readonly ShownColumn[];
  shown: readonly VirtualItem[];
  edits: Edits;
  tall: boolean;
  /** The column that the keyboard is at; -1 where it is in another row. */
  active: number;
  selection: Selection | undefined;
  onFocus: (place: Place) => void;
  onOpen: (place: Place) => void;
}

export function GridRow({ entry, place, top, height, columns, shown, edits, tall, active, selection, onFocus, onOpen }: Props): ReactNode {
  const data = useMemo(() => dataOf(entry, edits), [entry, edits]);
  const isSelected = selection?.keys.has(entry.key) ?? false;
  const number = entry.row ? (entry.row.place + 1).toLocaleString('en') : 'new';
  return (
    <div
      role="row"
      aria-rowindex={place + 2}
      aria-selected={selection ? isSelected : undefined}
      className={classes('group/row absolute top-0 left-0 w-full border-b', isSelected && 'bg-accent-soft/50')}
      style={{ height, transform: `translateY(${top}px)` }}
    >
      <div role="rowheader" aria-colindex={1} className={classes('sticky left-0 z-10 flex h-full items-start gap-2 border-r px-2.5 text-xs text-faint tabular-nums', tall ? 'pt-2' : 'pt-2.5', isSelected ? 'bg-accent-soft' : 'bg-canvas')} style={{ width: GUTTER }}>
        {selection && <input type="checkbox" tabIndex={-1} aria-label={`Select row ${number}`} checked={isSelected} onChange={() => selection.set(toggled(selection.keys, entry.key))} className="mt-px" />}
        <span className={classes('truncate', !entry.row && 'font-medium text-good')}>{number}</span>
      </div>
      {shown.map(({ index, start, size: width, key }) => {
        const column = columns[index];
        if (!column) return null;
        const cut = isChanged(entry, column.name, edits) ? 0 : cutOf(entry, column.name, column.was);
        const here: Place = { key: entry.key, column: column.name };
        return (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the grid hears all keys
          <div
            key={key}
            role="gridcell"
            aria-colindex={index + 2}
            data-cell={`${place}.${index}`}
            tabIndex={active === index ? 0 : -1}
            onFocus={() => onFocus(here)}
            onClick={() => onOpen(here)}
            className={classes(
              'absolute inset-y-0 cursor-pointer overflow-hidden border-r px-2.5 py-2 -outline-offset-2 hover:bg-sunken/60',
              isChanged(entry, column.name, edits) && 'bg-warn-soft/60',
              !entry.row && 'bg-good-soft/40',
            )}
            style={{ left: GUTTER + start, width }}
          >
            <CellView value={cellOf(data, column.name)} kind={column.kind} tall={tall} />
            {cut > 0 && <span className="absolute right-1.5 bottom-1 rounded bg-surface/90 px-1 text-[11px]/4 text-faint" title="Only its beginning is shown here">{formatSize(cut)}</span>}
          </div>
        );
      })}
    </div>
  );
}
