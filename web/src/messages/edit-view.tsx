/** A message's words, changed in place. The same keys send here as in the composer; Escape leaves all as it was. */
import { useState, type KeyboardEvent, type ReactNode } from 'react';
import { usePreferences, sends } from '@/lib/preferences';
import { Button } from '@/ui/button';
import { TextArea } from '@/ui/fields';
import { tellError } from '@/ui/toast';

interface Props {
  text: string;
  save: (text: string) => Promise<void>;
  close: () => void;
  /** What saving does: a user's words are answered. */
  label: string;
}

export function EditView({ text: given, save, close, label }: Props): ReactNode {
  const { send } = usePreferences();
  const [text, setText] = useState(given);
  const [saving, setSaving] = useState(false);
  const done = (): void => {
    if (text.trim() === given.trim()) {
      close();
      return;
    }
    setSaving(true);
    save(text).then(close, (error: unknown) => {
      setSaving(false);
      tellError(error);
    });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'Escape' && !event.nativeEvent.isComposing) {
      event.stopPropagation();
      close();
    } else if (sends(event.nativeEvent, send)) {
      event.preventDefault();
      if (text.trim() && !saving) done();
    }
  };
  return (
    <div className="w-full space-y-2">
      <TextArea
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the person has just asked to write here
        autoFocus
        aria-label="Edit the message"
        dir="auto"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={press}
        onFocus={(event) => event.target.setSelectionRange(text.length, text.length)}
      />
      <div className="flex justify-end gap-2">
        <Button size="small" look="quiet" onClick={close}>Cancel</Button>
        <Button size="small" look="main" disabled={saving || !text.trim()} onClick={done}>{label}</Button>
      </div>
    </div>
  );
}
