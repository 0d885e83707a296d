/** A cell that somebody opened: all of its value is read first, then it is edited, or only shown. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { focused } from '@/lib/dom';
import { JsonView } from '@/components/json-view';
import { LongText } from '@/components/text';
import { exact } from '@/lib/safe-text';
import { wholeRow } from '@/testsets/queries';
import { Problem, Spinner } from '@/components/status';
import { Sheet } from '@/components/dialog';
import { CellEditor } from './cell-editor';
import { cellOf, changedData, type Data, type Edits, type ShownColumn } from './edits';
import { type Entry, cutOf, dataOf } from './entries';
import { saidIn, isOneMessage } from './said';
import { TalkView } from './talk-view';

interface Props {
  id: string;
  number: number;
  entry: Entry;
  column: ShownColumn;
  edits: Edits;
  readOnly: boolean;
  onApply: (value: unknown, before: Data | null) => void;
  onClose: () => void;
}

export function OpenCell({ id, number, entry, column, edits, readOnly, onApply, onClose }: Props): ReactNode {
  const isCut = cutOf(entry, column.name, column.was) > 0;
  const { data: whole, error } = useQuery({ ...wholeRow(id, number, entry.row?.id ?? ''), enabled: isCut });
  const title = `${exact(column.name).slice(0, 80)}, ${entry.row ? `row ${entry.row.place + 1}` : 'new row'}`;
  if (isCut && !whole) return <Sheet open wide title={title} onClose={onClose}>{error ? <Problem error={error} /> : <Spinner />}</Sheet>;
  const before = whole?.data ?? entry.row?.data ?? null;
  const value = cellOf(before && whole ? changedData(entry.key, before, edits) : dataOf(entry, edits), column.name);
  if (readOnly) return <Sheet open wide title={title} onClose={onClose}><div ref={focused} tabIndex={-1} className="outline-none"><Value value={value} /></div></Sheet>;
  return <CellEditor title={title} column={column} value={value} onApply={(next) => onApply(next, before)} onClose={onClose} />;
}

function Value({ value }: { value: unknown }): ReactNode {
  if (value === undefined) return <p className="text-muted">The cell is empty.</p>;
  if (typeof value === 'string') return <p dir="auto" className="wrap-anywhere whitespace-pre-wrap"><LongText text={value} /></p>;
  const said = saidIn(isOneMessage(value) ? [value] : value);
  return said ? <TalkView said={said} /> : <JsonView value={value} open={3} />;
}
