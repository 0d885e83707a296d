/** What it is called, what it is of, how far it is, and what can be done with it. */
import { Lock, LockOpen, MoreHorizontal, Pencil, Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { askText, askYes } from '@/components/confirm-dialog';
import { Badge } from '@/components/status';
import { IconButton } from '@/components/button';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import { Segments } from '@/components/segmented-control';
import { tell, tellError } from '@/components/toast';
import { ProgressBar } from './progress-bar';
import { staleReview, type Review } from './queries';

export type Tab = 'queue' | 'answers';
const TABS: Readonly<Record<Tab, string>> = { queue: 'Queue', answers: 'Answers' };

interface Props {
  review: Review;
  tab: Tab;
  onTab: (tab: Tab) => void;
  /** Who answers, where that is a name and may be another. */
  name?: string;
  onName?: () => void;
}

export function Header({ review, tab, onTab, name, onName }: Props): ReactNode {
  const { id, progress } = review;
  const [, navigate] = useLocation();
  const path = { review: id };
  const change = (body: { name?: string; state?: 'open' | 'closed' }) => api('patch', '/api/reviews/{review}', { path, body }).then(() => staleReview(id));
  const rename = async () => {
    const given = await askText({ title: 'Rename the review', label: 'Name', value: review.name, act: 'Rename' });
    if (given) await change({ name: given });
  };
  const remove = async () => {
    if (!(await askYes({ title: 'Delete this review?', text: 'All answers go with it. What was reviewed stays.', act: 'Delete', danger: true }))) return;
    await api('delete', '/api/reviews/{review}', { path });
    void queryClient.invalidateQueries({ queryKey: ['reviews'] });
    tell('The review is deleted.');
    navigate('/reviews');
  };
  const isOpen = review.state === 'open';
  return (
    <header className="flex shrink-0 flex-wrap items-center gap-x-4 gap-y-2 border-b bg-surface px-4 py-3 sm:px-6">
      <div className="min-w-0 grow basis-72">
        <div className="flex flex-wrap items-center gap-x-2">
          <Link href="/reviews" className="text-[13px] text-muted hover:text-accent">Reviews</Link>
          <span aria-hidden className="text-faint">/</span>
          <h1 dir="auto" className="min-w-0 text-base font-semibold wrap-anywhere">{prose(review.name)}</h1>
          {!isOpen && <Badge>Closed</Badge>}
          {review.blind && <Badge title="Scores and variants are not shown">Blind</Badge>}
        </div>
        <p className="mt-0.5 text-[13px] text-muted">
          {pluralize(review.items, 'item')} × {pluralize(review.reviewers, 'reviewer')}
          {progress.gone > 0 && <span className="text-warn"> · {progress.gone.toLocaleString('en')} gone</span>}
          {' · '}<time dateTime={review.created_at} title={formatDateTime(review.created_at)}>{formatTimeAgo(review.created_at)}</time>
          {review.run && <> · <Link href={`/evaluations/${review.run}`} className="hover:text-accent hover:underline">its evaluation</Link></>}
          {name && <> · you are <bdi className="font-medium text-ink">{prose(name)}</bdi> <button type="button" onClick={onName} className="text-accent hover:underline">not you?</button></>}
        </p>
      </div>
      <div className="flex w-44 flex-col gap-1">
        <span className="text-xs text-muted tabular-nums">{progress.answers.toLocaleString('en')} of {pluralize(progress.wanted, 'answer')}</span>
        <ProgressBar answers={progress.answers} wanted={progress.wanted} />
      </div>
      <div className="flex items-center gap-1.5">
        <Segments label="View" options={TABS} value={tab} onChange={onTab} />
        <Menu trigger={<IconButton label="More"><MoreHorizontal /></IconButton>}>
          <MenuItem icon={<Pencil />} onSelect={() => void rename().catch(tellError)}>Rename</MenuItem>
          <MenuItem icon={isOpen ? <Lock /> : <LockOpen />} onSelect={() => void change({ state: isOpen ? 'closed' : 'open' }).catch(tellError)}>{isOpen ? 'Close: take no more answers' : 'Open again'}</MenuItem>
          <MenuLine />
          <MenuItem icon={<Trash2 />} danger onSelect={() => void remove().catch(tellError)}>Delete</MenuItem>
        </Menu>
      </div>
    </header>
  );
}
