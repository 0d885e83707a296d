/** Checklist of the tour. The next step is open; finished steps are ticked, automatically or by hand. */
import { ArrowRight, ChevronDown, ListChecks, X } from 'lucide-react';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { Link } from 'wouter';
import { IconButton } from '@/components/button';
import { showToast } from '@/components/toast';
import { cn } from '@/lib/cn';
import { tour, useTour, type StepId } from './progress';
import { textPieces, STEPS, type Step } from './steps';

export default function Checklist(): ReactNode {
  const { look, done } = useTour();
  const isOpen = look === 'open';
  const [selection, setSelection] = useState<{ id: StepId | null; stepCount: number } | null>(null);
  const next = STEPS.find(({ id }) => !done.includes(id))?.id ?? null;
  // A step that the user opened stays open until the next one is finished.
  const openId = selection?.stepCount === done.length ? selection.id : next;
  useEffect(() => {
    if (!isOpen) return undefined;
    const { dataset } = document.documentElement; // styles.css makes dialogs leave room for it.
    dataset.tour = '';
    return () => {
      delete dataset.tour;
    };
  }, [isOpen]);
  return (
    <section
      aria-label="Tour"
      aria-live="off"
      className="mx-2.5 mb-2 flex min-h-9 shrink flex-col overflow-hidden rounded-xl border bg-surface"
    >
      <Head isOpen={isOpen} count={done.length} />
      {isOpen && (
        <ol className="min-h-0 overflow-y-auto px-1 pt-1 pb-1.5">
          {STEPS.map((step) => (
            <StepRow
              key={step.id}
              step={step}
              isDone={done.includes(step.id)}
              isOpen={openId === step.id}
              onToggle={() => setSelection({ id: openId === step.id ? null : step.id, stepCount: done.length })}
            />
          ))}
          {next === null && (
            <li className="px-2 py-1 text-[13px] text-muted">
              That’s the tour. Now serve your own workflow:{' '}
              <code className="font-mono text-xs">palaver serve app.py</code>
            </li>
          )}
        </ol>
      )}
    </section>
  );
}

function Head({ isOpen, count }: { isOpen: boolean; count: number }): ReactNode {
  const countText = `${count} of ${STEPS.length}`;
  const dismiss = () => {
    tour.show('away');
    showToast('Tour hidden. Reopen it in Settings.', { action: { label: 'Undo', run: () => tour.show('open') } });
  };
  return (
    <>
      <header className="flex h-9 shrink-0 items-center pr-1 pl-1">
        <button
          type="button"
          aria-expanded={isOpen}
          onClick={() => tour.show(isOpen ? 'folded' : 'open')}
          className="flex h-7 grow items-center gap-2 rounded-lg px-2 font-medium hover:bg-sunken [&>svg]:size-4"
        >
          <ListChecks aria-hidden className="text-accent" />
          Tour
          <span className="text-xs font-normal text-muted tabular-nums">{countText}</span>
          <ChevronDown aria-hidden className={cn('ml-auto text-faint transition-transform', !isOpen && '-rotate-90')} />
        </button>
        <IconButton label="Hide tour" size="small" onClick={dismiss}>
          <X />
        </IconButton>
      </header>
      <div
        role="progressbar"
        aria-label="Tour steps"
        aria-valuemin={0}
        aria-valuemax={STEPS.length}
        aria-valuenow={count}
        aria-valuetext={countText}
        className="h-0.5 shrink-0 bg-sunken"
      >
        <div className="h-full bg-accent transition-[width]" style={{ width: `${(100 * count) / STEPS.length}%` }} />
      </div>
    </>
  );
}

interface RowProps {
  step: Step;
  isDone: boolean;
  isOpen: boolean;
  onToggle: () => void;
}

function StepRow({ step: { id, title, text, href, link }, isDone, isOpen, onToggle }: RowProps): ReactNode {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isOpen) row.current?.scrollIntoView({ block: 'nearest' });
  }, [isOpen]);
  return (
    <li ref={row} className={cn('rounded-lg', isOpen && 'bg-sunken')}>
      <div className="flex items-start">
        <input
          type="checkbox"
          aria-label={`Done: ${title}`}
          checked={isDone}
          onChange={({ target }) => tour.mark(id, target.checked)}
          className="mt-1.5 mr-0.5 ml-2 size-4 shrink-0 cursor-pointer accent-(--accent)"
        />
        <button
          type="button"
          aria-expanded={isOpen}
          onClick={onToggle}
          className={cn(
            'min-h-7 grow rounded-lg px-1.5 py-1 text-left text-[13px] leading-5 -outline-offset-2',
            isDone ? 'text-muted' : 'font-medium',
            !isOpen && 'hover:bg-sunken',
          )}
        >
          {title}
        </button>
      </div>
      {isOpen && (
        <div className="pr-2 pb-2 pl-8 text-[13px] text-muted">
          <p>
            {textPieces(text).map(({ kind, text: piece }) =>
              kind === 'plain' ? (
                piece
              ) : kind === 'pressed' ? (
                <b key={piece} className="font-medium text-ink">
                  {piece}
                </b>
              ) : (
                <code key={piece} className="rounded bg-surface px-1 font-mono text-xs whitespace-nowrap text-ink">
                  {piece}
                </code>
              ),
            )}
          </p>
          <Link
            href={href}
            className="mt-1 inline-flex items-center gap-1 rounded font-medium text-accent hover:underline"
          >
            {link} <ArrowRight aria-hidden className="size-3.5" />
          </Link>
        </div>
      )}
    </li>
  );
}
