/** A value of any size in a box of its own. */
import type { ReactNode } from 'react';
import { JsonView } from '@/messages/json-view';

export const JsonBox = ({ value }: { value: unknown }): ReactNode => (
  <div className="max-h-[32rem] overflow-y-auto rounded-xl border bg-surface p-2"><JsonView value={value} open={2} /></div>
);
