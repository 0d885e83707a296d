/** One review in the list: what is asked of what, how far it is, and how much people agree. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { score } from '@/evaluations/words';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { Badge } from '@/components/status';
import { atGlance } from './agreeing';
import { ProgressBar } from './progress-bar';
import { glance, type ReviewRow } from './queries';

export function ListItem({ row }: { row: ReviewRow }): ReactNode {
  const { data } = useQuery(glance(row));
  const wanted = data?.progress.wanted ?? row.items * row.reviewers;
  const answers = data?.progress.answers ?? Math.min(row.answers, wanted);
  return (
    <li className="border-b">
      <Link href={`/reviews/${row.id}`} className="grid gap-x-6 gap-y-1.5 px-4 py-3 -outline-offset-2 hover:bg-sunken/60 sm:grid-cols-[minmax(0,1fr)_11rem_12rem] sm:items-center">
        <span className="min-w-0">
          <span className="flex min-w-0 items-center gap-2">
            <span dir="auto" className="truncate font-medium" title={row.name}>{prose(row.name)}</span>
            {row.state === 'closed' && <Badge>Closed</Badge>}
            {row.blind && <Badge title="Reviewers see neither scores nor which variant answered">Blind</Badge>}
          </span>
          <span className="block truncate text-xs text-muted" dir="auto" title={row.questions.join(', ')}>
            {prose(row.questions.join(', '))} · <time dateTime={row.created_at} title={formatDateTime(row.created_at)}>{formatTimeAgo(row.created_at)}</time>
          </span>
        </span>
        <span className="flex min-w-0 flex-col gap-1">
          <span className="text-xs text-muted tabular-nums">{answers.toLocaleString('en')} of {pluralize(wanted, 'answer')}</span>
          <ProgressBar answers={answers} wanted={wanted} />
        </span>
        <Agreed row={row} />
      </Link>
    </li>
  );
}

function Agreed({ row }: { row: ReviewRow }): ReactNode {
  const { data } = useQuery(glance(row));
  const pairs = atGlance(data?.agreement ?? []);
  if (pairs.length === 0) {
    return <span className="text-xs text-faint">{row.reviewers < 2 ? 'One reviewer each' : 'No two have answered the same yet'}</span>;
  }
  return (
    <span className="flex min-w-0 flex-col text-xs" aria-label="Agreement" role="group">
      {pairs.slice(0, 3).map(({ question, percent, kappa }) => (
        <span key={question} className="flex min-w-0 gap-1.5 tabular-nums">
          <span className="w-11 shrink-0">{Math.round(percent)} %</span>
          <span className="w-13 shrink-0 text-muted">{kappa === null ? '' : `κ ${score(Math.round(kappa * 100) / 100)}`}</span>
          <span className="min-w-0 truncate text-muted" dir="auto">{prose(question)}</span>
        </span>
      ))}
      {pairs.length > 3 && <span className="text-faint">and {pairs.length - 3} more</span>}
    </span>
  );
}
