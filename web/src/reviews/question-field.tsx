/** One question: its answers to choose from, or a field to write in. What was chosen can be taken back where none is wanted. */
import { useState, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { prose } from '@/lib/safe-text';
import { TextArea, TextField } from '@/components/form-fields';
import { optionsOf, scoreIn, titleOf, type Option } from './answering';
import type { Question } from './queries';

interface Props {
  question: Question;
  value: unknown;
  /** Do digits answer this one? */
  active: boolean;
  missing: boolean;
  onFocus: () => void;
  /** Undefined takes the answer back. */
  onChange: (value: unknown) => void;
}

export function QuestionField({ question, value, active, missing, onFocus, onChange }: Props): ReactNode {
  const options = optionsOf(question);
  const isOptional = question.required === false;
  return (
    <fieldset onFocus={onFocus} className={classes('min-w-0 border-l-2 pl-3', missing ? 'border-bad' : active ? 'border-accent' : 'border-transparent')}>
      <legend className="float-left mb-1.5 w-full font-medium wrap-anywhere" dir="auto">
        {prose(titleOf(question))} {isOptional && <span className="font-normal text-faint">optional</span>}
      </legend>
      <div className="clear-both">
        {options && <Options question={question} options={options} value={value} active={active} onChange={onChange} />}
        {question.type === 'score' && !options && <Score question={question} value={value} onChange={onChange} />}
        {question.type === 'text' && (
          <TextArea dir="auto" aria-label={titleOf(question)} maxLength={20_000} value={typeof value === 'string' ? value : ''} onChange={({ target }) => onChange(target.value.trim() ? target.value : undefined)} />
        )}
        {isOptional && value !== undefined && options && <button type="button" onClick={() => onChange(undefined)} className="mt-1 text-xs text-muted hover:text-accent hover:underline">Take it back</button>}
      </div>
    </fieldset>
  );
}

interface OptionsProps extends Pick<Props, 'question' | 'value' | 'active' | 'onChange'> {
  options: readonly Option[];
}

function Options({ question, options, value, active, onChange }: OptionsProps): ReactNode {
  return (
    <div className={classes('flex gap-1.5', question.type === 'choice' ? 'flex-col' : 'flex-wrap')}>
      {options.map((option) => (
        <label
          key={String(option.value)}
          className={classes(
            'relative flex min-h-8 cursor-pointer items-center gap-2 rounded-lg border px-3 py-1 transition-colors has-focus-visible:outline-2 has-focus-visible:outline-offset-1 has-focus-visible:outline-accent',
            value === option.value ? 'border-accent bg-accent-soft font-medium text-accent' : 'hover:border-strong-line hover:bg-sunken',
          )}
        >
          <input type="radio" name={question.key} checked={value === option.value} onChange={() => onChange(option.value)} className="absolute inset-0 cursor-pointer opacity-0" />
          <span dir="auto" className="min-w-0 grow wrap-anywhere">{prose(option.label)}</span>
          {active && option.press !== null && option.press !== option.label && <kbd aria-hidden className="font-sans text-xs text-faint pointer-coarse:hidden">{option.press}</kbd>}
        </label>
      ))}
    </div>
  );
}

/** What is typed counts as soon as it is a number of the range. */
function Score({ question, value, onChange }: Pick<Props, 'question' | 'value' | 'onChange'>): ReactNode {
  const [text, setText] = useState(typeof value === 'number' ? String(value) : '');
  const read = scoreIn(text, question.range);
  const isWrong = text.trim() !== '' && typeof read === 'string';
  return (
    <>
      <TextField
        inputMode="decimal"
        aria-label={titleOf(question)}
        aria-invalid={isWrong}
        placeholder={question.range ? `${question.range[0]} to ${question.range[1]}` : 'A number'}
        className="!w-40"
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          const next = scoreIn(target.value, question.range);
          onChange(typeof next === 'number' ? next : undefined);
        }}
      />
      {isWrong && <p role="status" className="mt-1 text-xs text-bad">{read}</p>}
    </>
  );
}
