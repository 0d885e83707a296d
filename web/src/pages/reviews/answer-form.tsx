/** Form for the questions about an item. Digits choose, Enter saves and continues, S skips. */
import { useEffect, useEffectEvent, useState, type ReactNode } from 'react';
import { ApiError } from '@/api/client';
import { useCommand, formatShortcut } from '@/app/commands';
import { Button } from '@/components/button';
import { TextArea, LabeledField, TextField } from '@/components/form-fields';
import { withField } from '@/components/forms/values';
import { Kbd, ErrorMessage } from '@/components/status';
import { cn } from '@/lib/cn';
import { safeProse } from '@/lib/safe-text';
import {
  firstUnanswered,
  missingAnswers,
  answerOptions,
  questionTitle,
  type Answers,
  parseScore,
  type AnswerOption,
} from './answers';
import type { ReviewQuestion } from './queries';

interface AnswerFormProps {
  questions: readonly ReviewQuestion[];
  busy: boolean;
  error: Error | null;
  /** Called on any change, to renew the reservation. */
  onChange: () => void;
  onSave: (answers: Answers, comment: string) => void;
  onSkip: () => void;
  onNext: () => void;
}

export function AnswerForm({ questions, busy, error, onChange, onSave, onSkip, onNext }: AnswerFormProps): ReactNode {
  const [answers, setAnswers] = useState<Answers>({});
  const [comment, setComment] = useState('');
  /** Index of the question that digits answer. */
  const [activeIndex, setActiveIndex] = useState(0);
  const [isSubmitted, setSubmitted] = useState(false);
  const missing = missingAnswers(questions, answers);
  const isEmpty = Object.keys(answers).length === 0;
  const setAnswer = (index: number, value: unknown, { advances }: { advances: boolean }) => {
    const next = withField(answers, questions[index]?.key ?? '', value);
    setAnswers(next);
    if (advances) setActiveIndex(firstUnanswered(questions, next, index) ?? index);
    onChange();
  };
  const save = () => {
    setSubmitted(true);
    const firstMissing = questions.findIndex((question) => missing.includes(question));
    if (firstMissing >= 0) return setActiveIndex(firstMissing);
    return isEmpty ? undefined : onSave(answers, comment.trim());
  };
  const onKey = useEffectEvent((event: KeyboardEvent) => {
    const target = event.target instanceof Element ? event.target : null;
    if (
      event.defaultPrevented ||
      event.isComposing ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      target?.closest('[role=dialog],[role=menu]') ||
      isTyping(target)
    )
      return;
    const question = questions[activeIndex];
    const option = question && answerOptions(question)?.find(({ shortcut }) => shortcut === event.key);
    if (option) setAnswer(activeIndex, option.value, { advances: true });
    else if (event.key.toLowerCase() === 's' && !event.repeat) onSkip();
    else if (event.key === 'Enter' && !event.repeat && !target?.closest('button, a, summary')) save();
    else return;
    event.preventDefault();
  });
  useEffect(() => {
    // On the document, so that it runs before the commands of the page.
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  useCommand({ id: 'review-save', title: 'Save and next', group: 'Review', keys: 'mod+enter', run: save });
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
        {questions.map((question, index) => (
          <QuestionField
            key={question.key}
            question={question}
            value={answers[question.key]}
            active={index === activeIndex}
            missing={isSubmitted && missing.includes(question)}
            onFocus={() => setActiveIndex(index)}
            onChange={(value) => setAnswer(index, value, { advances: false })}
          />
        ))}
        <div className="pl-3.5">
          <LabeledField label="Comment" hint="optional">
            <TextArea
              dir="auto"
              maxLength={4000}
              value={comment}
              onChange={(event) => {
                setComment(event.target.value);
                onChange();
              }}
            />
          </LabeledField>
        </div>
      </div>
      <footer className="flex shrink-0 flex-col gap-2 border-t bg-surface px-4 py-3">
        {error && (
          <ErrorMessage error={error}>
            {error instanceof ApiError && error.status === 409 && (
              <Button size="small" onClick={onNext}>
                Next item
              </Button>
            )}
          </ErrorMessage>
        )}
        {isSubmitted && missing.length > 0 && (
          <p role="status" className="text-xs text-bad" dir="auto">
            Answer required: {missing.map(questionTitle).join(', ')}
          </p>
        )}
        {isSubmitted && missing.length === 0 && isEmpty && (
          <p role="status" className="text-xs text-bad">
            Answer at least one question, or skip this item.
          </p>
        )}
        <div className="flex gap-2">
          <Button type="submit" variant="main" disabled={busy} className="grow">
            {busy ? 'Saving…' : 'Save and next'}
          </Button>
          <Button disabled={busy} onClick={onSkip}>
            Skip
          </Button>
        </div>
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted pointer-coarse:hidden">
          <span>
            <Kbd>1</Kbd>…<Kbd>9</Kbd> choose
          </span>
          <span>
            <Kbd>Enter</Kbd> save
          </span>
          <span>
            <Kbd>S</Kbd> skip
          </span>
          <span>
            <Kbd>{formatShortcut('mod+enter')}</Kbd> save while typing
          </span>
        </p>
      </footer>
    </form>
  );
}

/** Whether the element takes letters and digits. */
const isTyping = (target: Element | null): boolean =>
  target?.matches('textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])') ?? false;

interface QuestionFieldProps {
  question: ReviewQuestion;
  value: unknown;
  /** Whether digits answer this question. */
  active: boolean;
  missing: boolean;
  onFocus: () => void;
  /** Undefined removes the answer. */
  onChange: (value: unknown) => void;
}

/** One question with its options or input. Optional answers can be removed. */
export function QuestionField({ question, value, active, missing, onFocus, onChange }: QuestionFieldProps): ReactNode {
  const options = answerOptions(question);
  const isOptional = question.required === false;
  return (
    <fieldset
      onFocus={onFocus}
      className={cn(
        'min-w-0 border-l-2 pl-3',
        missing ? 'border-bad' : active ? 'border-accent' : 'border-transparent',
      )}
    >
      <legend className="float-left mb-1.5 w-full font-medium wrap-anywhere" dir="auto">
        {safeProse(questionTitle(question))} {isOptional && <span className="font-normal text-faint">optional</span>}
      </legend>
      <div className="clear-both">
        {options && <Options question={question} options={options} value={value} active={active} onChange={onChange} />}
        {question.type === 'score' && !options && <Score question={question} value={value} onChange={onChange} />}
        {question.type === 'text' && (
          <TextArea
            dir="auto"
            aria-label={questionTitle(question)}
            maxLength={20_000}
            value={typeof value === 'string' ? value : ''}
            onChange={({ target }) => onChange(target.value.trim() ? target.value : undefined)}
          />
        )}
        {isOptional && value !== undefined && options && (
          <button
            type="button"
            onClick={() => onChange(undefined)}
            className="mt-1 text-xs text-muted hover:text-accent hover:underline"
          >
            Clear answer
          </button>
        )}
      </div>
    </fieldset>
  );
}

interface OptionsProps extends Pick<QuestionFieldProps, 'question' | 'value' | 'active' | 'onChange'> {
  options: readonly AnswerOption[];
}

function Options({ question, options, value, active, onChange }: OptionsProps): ReactNode {
  return (
    <div className={cn('flex gap-1.5', question.type === 'choice' ? 'flex-col' : 'flex-wrap')}>
      {options.map((option) => (
        <label
          key={String(option.value)}
          className={cn(
            'relative flex min-h-8 cursor-pointer items-center gap-2 rounded-lg',
            'border px-3 py-1 transition-colors has-focus-visible:outline-2',
            'has-focus-visible:outline-offset-1 has-focus-visible:outline-accent',
            value === option.value
              ? 'border-accent bg-accent-soft font-medium text-accent'
              : 'hover:border-strong-line hover:bg-sunken',
          )}
        >
          <input
            type="radio"
            name={question.key}
            checked={value === option.value}
            onChange={() => onChange(option.value)}
            className="absolute inset-0 cursor-pointer opacity-0"
          />
          <span dir="auto" className="min-w-0 grow wrap-anywhere">
            {safeProse(option.label)}
          </span>
          {active && option.shortcut !== null && option.shortcut !== option.label && (
            <kbd aria-hidden className="font-sans text-xs text-faint pointer-coarse:hidden">
              {option.shortcut}
            </kbd>
          )}
        </label>
      ))}
    </div>
  );
}

/** Typed numbers count once they are in range. */
function Score({ question, value, onChange }: Pick<QuestionFieldProps, 'question' | 'value' | 'onChange'>): ReactNode {
  const [text, setText] = useState(typeof value === 'number' ? String(value) : '');
  const score = parseScore(text, question.range);
  const isInvalid = text.trim() !== '' && typeof score === 'string';
  return (
    <>
      <TextField
        inputMode="decimal"
        aria-label={questionTitle(question)}
        aria-invalid={isInvalid}
        placeholder={question.range ? `${question.range[0]} to ${question.range[1]}` : 'A number'}
        className="w-40"
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          const next = parseScore(target.value, question.range);
          onChange(typeof next === 'number' ? next : undefined);
        }}
      />
      {isInvalid && (
        <p role="status" className="mt-1 text-xs text-bad">
          {score}
        </p>
      )}
    </>
  );
}
