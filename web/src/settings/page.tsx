import type { ReactNode } from 'react';
export default function SettingsPage(): ReactNode {
  return <div />;
}
