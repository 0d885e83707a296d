/** One cell in the table of results: a line of columns, or a card where there is little room. */
import { useQuery } from '@tanstack/react-query';
import { memo, type KeyboardEvent, type MouseEvent, type ReactNode } from 'react';
import { previewIn, PreviewCell, PreviewView } from '@/components/preview';
import { Spinner } from '@/components/status';
import type { Evaluation } from '@/evaluations/queries';
import { ScoreBadge } from '@/evaluations/score-badge';
import { classes } from '@/lib/class-names';
import { prose } from '@/lib/safe-text';
import { lasted } from '@/trace/time';
import { result, type ResultRow } from './queries';
import { rowOf } from './sides';
import { Talk, ValueView } from './talk';

/** Heights in pixels: all rows are equal, so that thousands need not be measured. */
export const LINE = 60;
export const CARD = 128;
export const COLUMNS = 'grid gap-x-4 grid-cols-[minmax(6rem,9rem)_minmax(0,1fr)_minmax(0,1fr)_minmax(9rem,17rem)_4.25rem]';
/** Badges beyond these are counted. */
const MOST = 6;

interface Props {
  evaluation: Evaluation;
  row: ResultRow;
  place: number;
  /** Is it the row that the keyboard is at? */
  active: boolean;
  card: boolean;
  /** One is looked at over the page: nothing opens on hover meanwhile. */
  still: boolean;
  open: (cell: string) => void;
  enter: (place: number) => void;
}

export const ResultLine = memo(function ResultLine({ evaluation, row, place, active, card, still, open, enter }: Props): ReactNode {
  const on = {
    // What is shown over the page is not in the row, though its events come by here.
    onClick: (event: MouseEvent<HTMLElement>) => {
      if (event.currentTarget.contains(event.target as Node)) open(row.id);
    },
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
      if (event.key === 'Enter' && event.target === event.currentTarget) open(row.id);
    },
    onFocus: () => enter(place),
  };
  return (
    <div
      role="row"
      aria-rowindex={place + 2}
      tabIndex={active ? 0 : -1}
      data-place={place}
      {...on}
      className={classes(
        'h-full cursor-pointer border-b px-4 -outline-offset-2 hover:bg-sunken/60 sm:px-6',
        card ? 'flex flex-col justify-center gap-1 py-2' : classes('items-center', COLUMNS),
        active && 'focus-within:bg-sunken/60',
      )}
    >
      {card ? <Card evaluation={evaluation} row={row} /> : <Line evaluation={evaluation} row={row} active={active} place={place} still={still} />}
    </div>
  );
});

const Named = ({ evaluation, row }: { evaluation: Evaluation; row: ResultRow }): ReactNode => {
  const several = evaluation.variants.length > 1;
  const repeat = evaluation.repeats > 1 ? `repeat ${row.repeat + 1}` : '';
  return (
    <>
      <span className="block truncate text-[13px] font-medium tabular-nums">Row {rowOf(row.id, evaluation)}</span>
      <span dir="auto" className="block truncate text-xs text-muted">{prose([several && row.variant, repeat].filter(Boolean).join(', '))}</span>
    </>
  );
};

type LineProps = Pick<Props, 'evaluation' | 'row' | 'active' | 'place' | 'still'>;

function Line(props: LineProps): ReactNode {
  const { evaluation, row } = props;
  return (
    <>
      <div role="gridcell" className="min-w-0"><Named evaluation={evaluation} row={row} /></div>
      <div role="gridcell" className="min-w-0 text-muted"><Side {...props} side="in" /></div>
      <div role="gridcell" className="min-w-0">{row.error ? <Failed row={row} /> : <Side {...props} side="out" />}</div>
      <div role="gridcell" className="min-w-0"><Badges row={row} named={evaluation.evaluators.length <= 3} /></div>
      <div role="gridcell" className="truncate text-right text-[13px] tabular-nums">{row.latency_seconds === null ? <span aria-hidden className="text-faint">–</span> : lasted(row.latency_seconds * 1000)}</div>
    </>
  );
}

function Card({ evaluation, row }: { evaluation: Evaluation; row: ResultRow }): ReactNode {
  const text = (side: 'in' | 'out') => prose(previewIn(row[side]).text ?? '') || 'Empty';
  return (
    <>
      <div role="gridcell" className="flex min-w-0 items-baseline gap-2"><Named evaluation={evaluation} row={row} /></div>
      <div role="gridcell" className="min-w-0">
        <span dir="auto" className="block truncate text-muted"><span className="sr-only">Asked: </span>{text('in')}</span>
        {row.error ? <Failed row={row} /> : <span dir="auto" className="block truncate"><span className="sr-only">Answered: </span>{text('out')}</span>}
      </div>
      <div role="gridcell" className="min-w-0"><Badges row={row} named /></div>
    </>
  );
}

const Failed = ({ row }: { row: ResultRow }): ReactNode => (
  <span dir="auto" className="block truncate text-bad" title={row.error?.message}>{prose(row.error?.message ?? 'It failed.')}</span>
);

function Badges({ row, named }: { row: ResultRow; named: boolean }): ReactNode {
  const more = row.scores.length - MOST;
  return (
    <span className="flex max-h-11 min-w-0 flex-wrap gap-1 overflow-hidden">
      {row.scores.slice(0, MOST).map((score) => <ScoreBadge key={score.evaluator} score={score} name={named} />)}
      {more > 0 && <span className="text-xs text-faint">+{more}</span>}
    </span>
  );
}

const SIDES = { in: 'Asked', out: 'Answered' };

function Side({ evaluation, row, side, active, place, still }: LineProps & { side: 'in' | 'out' }): ReactNode {
  const preview = previewIn(row[side]);
  if (still) return <span dir="auto" className="block truncate">{prose(preview.text ?? '') || 'Empty'}</span>;
  return (
    <PreviewCell
      size="line"
      preview={preview}
      tabIndex={active ? 0 : -1}
      label={`${SIDES[side]} in row ${place + 1}`}
      // oxlint-disable-next-line react/no-unstable-nested-components -- it is called, not mounted
      full={() => <Whole evaluation={evaluation.id} row={row} side={side} />}
    />
  );
}

/** The whole conversation of that side, asked for when it is looked at. */
function Whole({ evaluation, row, side }: { evaluation: string; row: ResultRow; side: 'in' | 'out' }): ReactNode {
  const { data, isPlaceholderData } = useQuery(result(evaluation, row.id));
  const preview = previewIn(row[side]);
  if (!data || isPlaceholderData) return <div className="flex w-144 max-w-full flex-col gap-2"><PreviewView preview={preview} roomy /><Spinner /></div>;
  const messages = side === 'in' ? data.history : data.messages;
  return (
    <div className="w-144 max-w-full">
      {messages.length > 0 ? <Talk messages={messages} label={SIDES[side]} /> : <ValueView value={side === 'in' ? data.inputs : (data.value ?? data.text)} label={SIDES[side]} />}
    </div>
  );
}
