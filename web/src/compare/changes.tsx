/** The rows that got lost, or right: what was asked, and both answers side by side. */
import { useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { Link } from 'wouter';
import { Button } from '@/components/button';
import { previewIn, PreviewCell } from '@/components/preview';
import { Problem, Spinner } from '@/components/status';
import type { ResultRow } from '@/evaluation/queries';
import { ScoreBadge } from '@/evaluations/score-badge';
import { prose } from '@/lib/safe-text';
import { split } from './pairing';
import { cellOfRow, lostOn } from './queries';

const FIRST = 5;

interface Props {
  kind: 'regressions' | 'fixes';
  count: number;
  base: string;
  candidate: string;
  evaluator: string;
}

const TITLES = { regressions: 'Regressions', fixes: 'Fixes' };
const HINTS = { regressions: 'Passed in the base, and does not in the candidate.', fixes: 'Did not pass in the base, and does in the candidate.' };
const NONE = { regressions: 'No row got lost.', fixes: 'No row got right.' };

export function Changes({ kind, count, base, candidate, evaluator }: Props): ReactNode {
  const isLost = kind === 'regressions';
  // What got right is what would get lost the other way round.
  const [side, other] = isLost ? [candidate, base] : [base, candidate];
  const { data, error } = useQuery({ ...lostOn(side, other, evaluator), enabled: count > 0 });
  const [most, setMost] = useState(FIRST);
  const rows = data ? firstOfEach(data.data) : [];
  return (
    <section aria-label={TITLES[kind]} className="min-w-0">
      <h3 className="font-semibold">{TITLES[kind]} <span className="font-normal text-muted tabular-nums">{count.toLocaleString('en')}</span></h3>
      <p className="mb-2 text-[13px] text-muted">{count > 0 ? HINTS[kind] : NONE[kind]}</p>
      {error && <Problem error={error} />}
      {count > 0 && !data && !error && <Spinner />}
      <ul className="flex flex-col gap-2">
        {rows.slice(0, most).map((row) => <Change key={row.row} row={row} isLost={isLost} base={base} candidate={candidate} evaluator={evaluator} />)}
      </ul>
      {rows.length > most && <Button size="small" look="quiet" className="mt-2" onClick={() => setMost(most + 20)}>{rows.length - most} more</Button>}
      {data?.next && most >= rows.length && <p className="mt-2 text-xs text-faint">There are more; the results of the evaluation can be filtered for them.</p>}
    </section>
  );
}

/** Of several repeats of a row the first. */
const firstOfEach = (cells: readonly ResultRow[]): ResultRow[] => [...new Map(cells.toReversed().map((cell) => [cell.row, cell])).values()].toReversed();

function Change({ row, isLost, base, candidate, evaluator }: { row: ResultRow; isLost: boolean; base: string; candidate: string; evaluator: string }): ReactNode {
  const { data: found } = useQuery(cellOfRow(isLost ? base : candidate, row.row));
  const [before, after] = isLost ? [found, row] : [row, found];
  return (
    <li className="min-w-0 rounded-xl border bg-surface p-3">
      <p dir="auto" className="mb-2 line-clamp-3 wrap-anywhere text-muted"><span className="sr-only">Asked: </span>{prose(previewIn(row.in).text ?? '') || row.row}</p>
      <div className="grid gap-3 @2xl:grid-cols-2">
        <Answer title="Base" side={base} cell={before} evaluator={evaluator} />
        <Answer title="Candidate" side={candidate} cell={after} evaluator={evaluator} />
      </div>
    </li>
  );
}

function Answer({ title, side, cell, evaluator }: { title: string; side: string; cell: ResultRow | null | undefined; evaluator: string }): ReactNode {
  const score = cell?.scores.find((one) => one.evaluator === evaluator);
  return (
    <section aria-label={`${title} answered`} className="min-w-0 rounded-lg bg-canvas p-2">
      <div className="mb-1 flex items-center gap-2 text-xs text-muted">
        {title}
        {score && <ScoreBadge score={score} />}
        <span className="grow" />
        {cell && <Link href={`/evaluations/${split(side).id}?cell=${cell.id}`} className="hover:text-accent hover:underline">Open</Link>}
      </div>
      {cell === undefined && <Spinner />}
      {cell === null && <p className="text-faint">Not there.</p>}
      {cell && (cell.error ? <p dir="auto" className="wrap-anywhere text-bad">{prose(cell.error.message)}</p> : <PreviewCell preview={previewIn(cell.out)} label={`${title} answered`} />)}
    </section>
  );
}
