/**
 * One dialog that confirms an action or asks for a line of text. `askConfirmation` and `askText` can be called from
 * anywhere.
 */
import { useState, type ReactNode } from 'react';
import { create } from 'zustand';
import { focusRef } from '@/lib/dom';
import { Button } from './button';
import { Dialog } from './dialog';
import { TextField } from './form-fields';

interface Question {
  title: string;
  text?: string;
  /** The label of the confirming button. */
  act: string;
  /** Focuses Cancel, so that Enter does no harm. */
  danger?: boolean;
  /** Asks for a text, with this as the initial value. */
  value?: string;
  label?: string;
}

interface OpenQuestion extends Question {
  id: number;
  answer: (value: string | null) => void;
}

const useQuestion = create<OpenQuestion | null>(() => null);
let lastId = 0;

/** Open a question, or close it (null). Cancels the one that is open, if any. */
function setQuestion(next: OpenQuestion | null): void {
  useQuestion.getState()?.answer(null);
  useQuestion.setState(next, true);
}

const ask = (question: Question): Promise<string | null> =>
  new Promise((answer) => {
    setQuestion({ ...question, id: ++lastId, answer });
  });

/** Ask for confirmation. */
export const askConfirmation = async (question: Omit<Question, 'value' | 'label'>): Promise<boolean> =>
  (await ask(question)) !== null;

/** Ask for a line of text; null if cancelled. */
export const askText = (question: Question & { value: string; label: string }): Promise<string | null> => ask(question);

export function ConfirmDialog(): ReactNode {
  const question = useQuestion();
  return question && <QuestionDialog key={question.id} question={question} />;
}

function QuestionDialog({ question }: { question: OpenQuestion }): ReactNode {
  const [text, setText] = useState(question.value ?? '');
  const finish = (value: string | null) => {
    question.answer(value);
    setQuestion(null);
  };
  return (
    <Dialog
      open
      onClose={() => finish(null)}
      title={question.title}
      {...(question.text ? { description: question.text } : {})}
    >
      <form
        className="flex flex-col gap-4 pt-1"
        onSubmit={(event) => {
          event.preventDefault();
          finish(text.trim());
        }}
      >
        {question.value !== undefined && (
          <TextField
            ref={focusRef}
            dir="auto"
            aria-label={question.label}
            maxLength={200}
            value={text}
            onChange={(event) => setText(event.target.value)}
            onFocus={(event) => event.target.select()}
          />
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={() => finish(null)} {...(question.danger ? { ref: focusRef } : {})}>
            Cancel
          </Button>
          <Button
            type="submit"
            variant={question.danger ? 'danger' : 'main'}
            {...(question.value === undefined && !question.danger ? { ref: focusRef } : {})}
          >
            {question.act}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
