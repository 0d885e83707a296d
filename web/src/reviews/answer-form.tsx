/** The questions about an item. Keys: a digit chooses, Enter saves and goes on, S skips. */
import { useEffect, useEffectEvent, useState, type ReactNode } from 'react';
import { ApiError } from '@/api/client';
import { useCommand, shown } from '@/app/commands';
import { Button } from '@/components/button';
import { TextArea, Labelled } from '@/components/form-fields';
import { withField } from '@/components/forms/values';
import { Kbd, Problem } from '@/components/status';
import { firstOpen, lacking, optionsOf, titleOf, type Answers } from './answering';
import type { Question } from './queries';
import { QuestionField } from './question-field';

interface Props {
  questions: readonly Question[];
  busy: boolean;
  error: Error | null;
  /** Somebody is at work on it. */
  onChange: () => void;
  onSave: (answers: Answers, comment: string) => void;
  onSkip: () => void;
  onNext: () => void;
}

export function AnswerForm({ questions, busy, error, onChange, onSave, onSkip, onNext }: Props): ReactNode {
  const [answers, setAnswers] = useState<Answers>({});
  const [comment, setComment] = useState('');
  /** The question that digits answer. */
  const [at, setAt] = useState(0);
  const [tried, setTried] = useState(false);
  const lack = lacking(questions, answers);
  const isEmpty = Object.keys(answers).length === 0;
  const set = (place: number, value: unknown, { moves }: { moves: boolean }) => {
    const next = withField(answers, questions[place]?.key ?? '', value);
    setAnswers(next);
    if (moves) setAt(firstOpen(questions, next, place) ?? place);
    onChange();
  };
  const save = () => {
    setTried(true);
    const first = questions.findIndex((question) => lack.includes(question));
    if (first >= 0) return setAt(first);
    return isEmpty ? undefined : onSave(answers, comment.trim());
  };
  const onKey = useEffectEvent((event: KeyboardEvent) => {
    const target = event.target instanceof Element ? event.target : null;
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || target?.closest('[role=dialog],[role=menu]') || isWriting(target)) return;
    const question = questions[at];
    const option = question && optionsOf(question)?.find(({ press }) => press === event.key);
    if (option) set(at, option.value, { moves: true });
    else if (event.key.toLowerCase() === 's' && !event.repeat) onSkip();
    else if (event.key === 'Enter' && !event.repeat && !target?.closest('button, a, summary')) save();
    else return;
    event.preventDefault();
  });
  useEffect(() => {
    // On the document, so before the commands of the page hear it.
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  useCommand({ id: 'review-save', title: 'Save the answers and go on', group: 'Review', keys: 'mod+enter', run: save });
  return (
    <form
      aria-label="Questions"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
      className="flex min-h-0 flex-col border-t bg-surface lg:border-t-0 lg:border-l"
    >
      <div className="flex min-h-0 grow flex-col gap-4 px-4 py-4 lg:overflow-y-auto">
        {questions.map((question, place) => (
          <QuestionField
            key={question.key}
            question={question}
            value={answers[question.key]}
            active={place === at}
            missing={tried && lack.includes(question)}
            onFocus={() => setAt(place)}
            onChange={(value) => set(place, value, { moves: false })}
          />
        ))}
        <div className="pl-3.5"><Labelled label="Comment" hint="if you like"><TextArea dir="auto" maxLength={4000} value={comment} onChange={(event) => { setComment(event.target.value); onChange(); }} /></Labelled></div>
      </div>
      <footer className="flex shrink-0 flex-col gap-2 border-t bg-surface px-4 py-3">
        {error && <Problem error={error}>{error instanceof ApiError && error.status === 409 && <Button size="small" onClick={onNext}>Next item</Button>}</Problem>}
        {tried && lack.length > 0 && <p role="status" className="text-xs text-bad" dir="auto">{lack.map(titleOf).join(', ')}: wants an answer.</p>}
        {tried && lack.length === 0 && isEmpty && <p role="status" className="text-xs text-bad">Nothing is answered yet. You can skip it.</p>}
        <div className="flex gap-2">
          <Button type="submit" look="main" disabled={busy} className="grow">{busy ? 'One moment…' : 'Save and next'}</Button>
          <Button disabled={busy} onClick={onSkip}>Skip</Button>
        </div>
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted pointer-coarse:hidden">
          <span><Kbd>1</Kbd>…<Kbd>9</Kbd> choose</span>
          <span><Kbd>Enter</Kbd> saves</span>
          <span><Kbd>S</Kbd> skips</span>
          <span><Kbd>{shown('mod+enter')}</Kbd> saves while you write</span>
        </p>
      </footer>
    </form>
  );
}

/** Is it a field that letters and digits belong to? */
const isWriting = (target: Element | null): boolean => target?.matches('textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])') ?? false;
