/** An old revision becomes the newest again, after a question; nothing that was between is lost. */
import type { TestSet } from '@/api/types';
import { askYes } from '@/components/confirm-dialog';
import { tell } from '@/components/toast';
import { drafts } from './drafts';
import { restore } from './saving';

export const useRestore = (set: TestSet) => async (number: number): Promise<boolean> => {
  const text = drafts.of(set.id) ? 'Save or discard your changes first: they were made on the newest one.' : 'A new revision gets its rows. The others stay as they are.';
  if (drafts.of(set.id)) {
    tell(text, { bad: true });
    return false;
  }
  if (!(await askYes({ title: `Restore revision ${number}?`, text, act: 'Restore' }))) return false;
  const { head } = await restore(set.id, set.head, number);
  tell(head === set.head ? 'The newest revision has just these rows.' : `Revision ${head} has the rows of ${number}.`);
  return true;
};
