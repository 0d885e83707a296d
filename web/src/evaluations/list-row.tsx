/** One evaluation in the list: a line of columns, or a card where there is little room. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { classes } from '@/lib/class-names';
import { formatAge, formatDateTime, pluralize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { IntervalBar } from './interval';
import { glance, type EvaluationRow } from './queries';
import { ProgressBar, StateBadge } from './state-badge';
import { figureOf, figureWords, isOpen, titleOf } from './words';

/** Heights in pixels: all rows are equal. */
export const LINE = 84;
export const CARD = 164;
const COLUMNS = 'grid grid-cols-[minmax(0,1.3fr)_minmax(0,1fr)_9rem_minmax(0,1.2fr)_5rem] gap-x-4';

export const ListHead = (): ReactNode => (
  <div role="row" className={classes('sticky top-0 z-10 h-8 items-center border-b bg-canvas px-4 text-xs font-medium text-faint sm:px-6', COLUMNS)}>
    <span role="columnheader">Name</span>
    <span role="columnheader">Variants</span>
    <span role="columnheader">State</span>
    <span role="columnheader">Result</span>
    <span role="columnheader" className="text-right">Begun</span>
  </div>
);

interface Props {
  row: EvaluationRow;
  top: number;
  card: boolean;
}

export function ListRow({ row, top, card }: Props): ReactNode {
  const [, navigate] = useLocation();
  const href = `/evaluations/${row.id}`;
  const name = (
    <>
      <Link href={href} dir="auto" className="block truncate font-medium" title={titleOf(row)}>{prose(titleOf(row))}</Link>
      <span className="block truncate text-xs text-muted" dir="auto">{prose(row.testset.name)} · revision {row.testset.revision} · {pluralize(row.total, 'cell')}</span>
    </>
  );
  const when = <time dateTime={row.created_at} title={formatDateTime(row.created_at)} className="text-xs text-muted">{formatAge(row.created_at)}</time>;
  return (
    // The link inside is what the keyboard reaches.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events
    <div
      role="row"
      onClick={(event) => !(event.target as Element).closest('a') && navigate(href)}
      className={classes('absolute inset-x-0 top-0 cursor-pointer border-b px-4 hover:bg-sunken/60 sm:px-6', card ? 'flex flex-col justify-center gap-1.5' : classes('items-center', COLUMNS))}
      style={{ height: card ? CARD : LINE, transform: `translateY(${top}px)` }}
    >
      {card ? (
        <>
          <div role="cell" className="min-w-0">{name}</div>
          <div role="cell" className="flex min-w-0 items-center gap-2"><StateCell row={row} /><span className="grow" />{when}</div>
          <div role="cell" className="min-w-0"><Glance row={row} most={2} /></div>
        </>
      ) : (
        <>
          <div role="cell" className="min-w-0">{name}</div>
          <div role="cell" className="min-w-0">
            <span className="block truncate text-[13px]" dir="auto" title={row.variants.join(', ')}>{prose(row.variants.join(', '))}</span>
            <span className="block truncate text-xs text-faint" title={row.evaluators.join(', ')}>{prose(row.evaluators.join(', '))}</span>
          </div>
          <div role="cell" className="min-w-0"><StateCell row={row} /></div>
          <div role="cell" className="min-w-0"><Glance row={row} most={3} /></div>
          <div role="cell" className="text-right">{when}</div>
        </>
      )}
    </div>
  );
}

function StateCell({ row }: { row: EvaluationRow }): ReactNode {
  const { state, done, failed, errors, total } = row;
  const wrong = [failed > 0 && `${failed} failed`, errors > 0 && pluralize(errors, 'error')].filter(Boolean).join(', ');
  return (
    <span className="flex min-w-0 flex-col gap-1">
      <span className="flex items-center gap-2">
        <StateBadge state={state} reason={row.reason} />
        {isOpen(state) && <span className="text-xs text-muted tabular-nums">{(done + failed).toLocaleString('en')} of {total.toLocaleString('en')}</span>}
      </span>
      {isOpen(state) ? <ProgressBar state={state} done={done} failed={failed} total={total} /> : wrong && <span className="truncate text-xs text-bad">{wrong}</span>}
    </span>
  );
}

/** The figure of each evaluator for the first variants: enough to see where to look. */
function Glance({ row, most }: { row: EvaluationRow; most: number }): ReactNode {
  const { data } = useQuery({ ...glance(row), enabled: row.done + row.failed > 0 });
  const told = data?.variants.flatMap((variant) =>
    variant.evaluators.flatMap((one) => {
      const figure = figureOf(one);
      return figure ? [{ key: `${variant.name} ${one.name}`, name: data.variants.length > 1 ? `${variant.name} · ${one.name}` : one.name, figure }] : [];
    }),
  );
  if (!told?.length) return <span aria-hidden className="text-faint">–</span>;
  const rest = told.length - most;
  return (
    <span className="flex min-w-0 flex-col">
      {told.slice(0, rest === 1 ? most + 1 : most).map(({ key, name, figure }) => (
        <span key={key} className="flex min-w-0 items-center gap-2 text-xs leading-[1.15rem]">
          <IntervalBar figure={figure} className="h-3 w-14" />
          <span className="w-13 shrink-0 tabular-nums">{figureWords(figure)}</span>
          <span className="min-w-0 truncate text-muted" dir="auto">{prose(name)}</span>
        </span>
      ))}
      {rest > 1 && <span className="text-xs text-faint">and {rest} more</span>}
    </span>
  );
}
