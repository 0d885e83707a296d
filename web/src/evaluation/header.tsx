/** What it is called, how it ended, and what can be done with it. */
import { CopyPlus, Download, GitCompareArrows, MoreHorizontal, RotateCw, Square, Trash2, Users } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { Evaluation } from '@/evaluations/queries';
import { StateBadge } from '@/evaluations/state-badge';
import { isOpen, titleOf } from '@/evaluations/words';
import { formatDateTime, formatTimeAgo, pluralize, formatDollars } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { rooted } from '@/lib/server-path';
import { lasted } from '@/trace/time';
import { askYes } from '@/components/confirm-dialog';
import { Button, IconButton } from '@/components/button';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { tell, tellError } from '@/components/toast';
import { CompareDialog } from './compare-dialog';

const FORMATS = { html: 'A page to read (HTML)', markdown: 'A comment (Markdown)', csv: 'A spreadsheet (CSV)', jsonl: 'Everything (JSON Lines)', junit: 'For build servers (JUnit)' };

export function Header({ evaluation }: { evaluation: Evaluation }): ReactNode {
  const { id, state, testset, failed, errors } = evaluation;
  const [, navigate] = useLocation();
  const [comparing, setComparing] = useState(false);
  const path = { evaluation: id };
  const fresh = () => queryClient.invalidateQueries({ queryKey: ['evaluation', id] });
  const cancel = () => api('post', '/api/evaluations/{evaluation}/cancel', { path }).then(fresh).catch(tellError);
  const rerun = (which: 'failed' | 'errors' | 'all') =>
    api('post', '/api/evaluations/{evaluation}/rerun', { path, body: { which } }).then(fresh).catch(tellError);
  const remove = async () => {
    if (!(await askYes({ title: 'Delete this evaluation?', text: 'Its results and scores go with it. The test set stays.', act: 'Delete', danger: true }))) return;
    await api('delete', '/api/evaluations/{evaluation}', { path });
    void queryClient.invalidateQueries({ queryKey: ['evaluations'] });
    tell('The evaluation is deleted.');
    navigate('/evaluations');
  };
  const save = (format: string) => window.location.assign(rooted(`/api/evaluations/${id}/export?format=${format}`));
  const undone = evaluation.total - evaluation.done;
  return (
    <header className="flex flex-wrap items-start gap-x-3 gap-y-2 border-b bg-surface px-4 py-3 sm:px-6">
      <div className="min-w-0 grow basis-72">
        <div className="flex flex-wrap items-center gap-x-2">
          <Link href="/evaluations" className="text-[13px] text-muted hover:text-accent">Evaluations</Link>
          <span aria-hidden className="text-faint">/</span>
          <h1 dir="auto" className="min-w-0 text-base font-semibold wrap-anywhere">{prose(titleOf(evaluation))}</h1>
          <StateBadge state={state} reason={evaluation.reason} />
        </div>
        <p className="mt-0.5 text-[13px] text-muted">
          <Link href={`/testsets/${testset.id}?revision=${testset.revision}`} dir="auto" className="wrap-anywhere hover:text-accent hover:underline">{prose(testset.name)}, revision {testset.revision}</Link>
          {' · '}{pluralize(evaluation.rows, 'row')} × {pluralize(evaluation.variants.length, 'variant')}{evaluation.repeats > 1 && ` × ${evaluation.repeats} times`}
          {' · '}<time dateTime={evaluation.created_at} title={formatDateTime(evaluation.created_at)}>{formatTimeAgo(evaluation.created_at)}</time>
          {evaluation.started_at && evaluation.ended_at && ` · ${lasted(Date.parse(evaluation.ended_at) - Date.parse(evaluation.started_at))}`}
          {evaluation.cost !== null && ` · ${formatDollars(evaluation.cost)}`}
          {evaluation.score_cost !== null && evaluation.score_cost > 0 && ` · evaluators ${formatDollars(evaluation.score_cost)}`}
          {failed > 0 && <span className="text-bad"> · {failed.toLocaleString('en')} failed</span>}
          {errors > 0 && <span className="text-warn"> · {pluralize(errors, 'error')} of evaluators</span>}
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-1.5">
        {isOpen(state) && <Button look="danger" onClick={() => void cancel()}><Square aria-hidden className="size-3.5" />Cancel</Button>}
        {!isOpen(state) && undone > 0 && <Button onClick={() => void rerun('failed')}><RotateCw aria-hidden className="size-4" />Rerun failed</Button>}
        <Button onClick={() => setComparing(true)}><GitCompareArrows aria-hidden className="size-4" />Compare with…</Button>
        <Menu trigger={<Button><Download aria-hidden className="size-4" />Export</Button>}>
          <MenuTitle>Save as</MenuTitle>
          {Object.entries(FORMATS).map(([format, title]) => <MenuItem key={format} onSelect={() => save(format)}>{title}</MenuItem>)}
        </Menu>
        <Menu trigger={<IconButton label="More"><MoreHorizontal /></IconButton>}>
          <MenuItem icon={<RotateCw />} disabled={isOpen(state) || errors === 0} onSelect={() => void rerun('errors')}>Rerun where an evaluator erred</MenuItem>
          <MenuItem icon={<RotateCw />} disabled={isOpen(state)} onSelect={() => void rerun('all')}>Rerun all</MenuItem>
          <MenuItem icon={<CopyPlus />} onSelect={() => navigate(`/evaluations?new=1&like=${id}`)}>New one like this…</MenuItem>
          <MenuItem icon={<Users />} disabled={isOpen(state)} onSelect={() => navigate(`/reviews?new=1&run=${id}`)}>Let people review it…</MenuItem>
          <MenuLine />
          <MenuItem icon={<Trash2 />} danger onSelect={() => void remove().catch(tellError)}>Delete</MenuItem>
        </Menu>
      </div>
      {comparing && <CompareDialog evaluation={evaluation} onClose={() => setComparing(false)} />}
    </header>
  );
}
